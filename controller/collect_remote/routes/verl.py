"""verl: the actor's update or the rollout of one training step, by Hydra overrides behind the command."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import EnvironmentUnfit, UsageError
from ..inventory.hosts import ModelSpec
from ..request import Request, Window
from ..survey.project import ProjectFacts, Wants
from . import verl_release
from .launch_script import number_of, program_of, text_of, with_arguments
from .plan import Launch, Plan, driven
from .route import Match, Route

MODULE = r"(?:verl|recipe)(?:\.\w+)+"
VERSION = "verl/version/version"  # of a checkout: it is imported from there, whatever is installed
TENSOR = "actor_rollout_ref.rollout.tensor_model_parallel_size"
ROLLOUT_TOKENS = 10


def wants(_: Mapping[str, Any]) -> Wants:
    return Wants(files=(VERSION,), distributions=("verl",))


def detect(model: ModelSpec, facts: ProjectFacts) -> Match | None:
    command = model.options.get("command", ())
    started = program_of(command, facts, MODULE)
    if started is None:
        return None
    version = _version(facts)
    seen = f"it is verl {version}" if version else "its version is not seen: taken for the newest"
    return Match(
        (f"the command starts {started}", seen), version, _setting("trainer.n_gpus_per_node", 8, command, facts)
    )


def _version(facts: ProjectFacts) -> str | None:
    return facts.texts.get(VERSION, "").strip() or facts.versions.get("verl")


def plan(request: Request, window: Window, model: ModelSpec, facts: ProjectFacts) -> Plan:
    """One step of the job, which then is over: after --warmup-steps others, with one more behind it."""
    release = verl_release.of(_version(facts))
    command = model.options["command"]
    _check(request, window, model, facts, release)
    tokens = None if request.all_steps else request.steps or ROLLOUT_TOKENS
    if window.phase == "rollout" and release.servers:  # the ranks of an engine are its own: we take the first engine
        request = _first_replica(request, _setting(TENSOR, 2, command, facts) or request.rank_count)
    started = with_arguments(command, facts, MODULE, release.overrides(window.phase, request, tokens))
    launch = Launch(
        started.argv,
        facts.path,
        env={"RAY_ADDRESS": "local", **started.env},
        shim={
            "windows": {window.phase: None},
            "phase_by": [[verl_release.DIRECTORIES[window.phase], window.phase]],
            "phase": None,
            "step_on": [],
            "watch": [{"call": name, "phase": window.phase} for name in release.stage(window.phase)],
        },
        stop="recorded",
    )
    notes = (
        "Ray: an instance of its own, on the leased devices alone",
        f"the job ends after {request.warmup_steps + 2} steps, resumes and saves no checkpoint, and validates nothing",
        *started.notes,
    )
    return driven("verl", request, launch, {window.phase: None}, files=started.files, notes=notes)


def _setting(key: str, default: int, command: Sequence[str], facts: ProjectFacts) -> int | None:
    """The number of an override; None where it is there, and the text does not tell it."""
    told = number_of(re.escape(key), command, facts)
    return default if told is None and key not in text_of(command, facts) else told


def _check(
    request: Request, window: Window, model: ModelSpec, facts: ProjectFacts, release: verl_release.Release
) -> None:
    if release.minor < 5:
        raise EnvironmentUnfit(
            f"verl {release.version} has no profiler for NPUs", "update it: from 0.5.0 on it has one"
        )
    if window.phase == "rollout" and release.minor == 7:
        raise EnvironmentUnfit(
            f"verl {release.version} makes its rollouts in servers that it does not profile",
            "ask for --phase train, or update it: from 0.8.0 on it does",
        )
    if window.phase == "train" and (request.all_steps or request.steps not in (None, 1)):
        raise UsageError(
            "verl records each training step by itself, and one is all that is asked of it", "leave --steps out"
        )
    if _setting("trainer.nnodes", 1, model.options["command"], facts) != 1:
        raise UsageError(
            f"the command of model {model.name} trains on several nodes (trainer.nnodes)",
            "let it train on one: trainer.nnodes=1",
        )


def _first_replica(request: Request, size: int) -> Request:
    """UsageError for ranks that it does not have."""
    beyond = [rank for rank in request.ranks if rank >= size]
    if beyond:
        raise UsageError(
            f"--ranks {beyond[0]}: a rollout is recorded on the first of its engines, which has {size} ranks",
            f"name some of 0 to {size - 1}, or leave it out for all of them",
        )
    return dataclasses.replace(request, ranks=request.ranks or tuple(range(size)))


ROUTE = Route("verl", ("train", "rollout"), detect, plan, wants, all_steps=True, on_several=False)
