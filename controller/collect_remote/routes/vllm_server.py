"""A server of vLLM: how its command is read, what it is told, and what is said to it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from ..errors import EnvironmentUnfit, UsageError
from ..inventory.hosts import ModelSpec
from ..request import Request, Window
from ..survey.project import ProjectFacts
from . import vllm_release
from .launch_script import Started, number_of, text_of, with_arguments
from .plan import Launch, Named, Plan, driven

SERVER = r"vllm(?:\s+serve|\.entrypoints\.openai\.api_server)"
TENSOR, PIPELINE = r"(?:--tensor-parallel-size|-tp)", r"(?:--pipeline-parallel-size|-pp)"
REPLICAS = r"(?:--data-parallel-size|-dp)"
READY_S, SWITCH_S = 1800, 1800  # of large models; a release that parses in place answers the stop only then


def starts(command: Sequence[str], facts: ProjectFacts) -> bool:
    return bool(re.search(rf"(?<![\w.-]){SERVER}(?![\w.-])", text_of(command, facts)))


def ranks(command: Sequence[str], facts: ProjectFacts) -> int | None:
    """One for each device of the replica; None where the command does not tell."""
    text, found = text_of(command, facts), 1
    for option in (TENSOR, PIPELINE):
        told = number_of(option, command, facts)
        if told is None and re.search(rf"(?<![\w-]){option}", text):
            return None
        found *= told or 1
    return found


def plan(
    request: Request, window: Window, model: ModelSpec, facts: ProjectFacts, release: vllm_release.Release
) -> Plan:
    command = model.options["command"]
    if (number_of(REPLICAS, command, facts) or 1) > 1:
        raise UsageError(
            f"the command of model {model.name} starts several replicas (--data-parallel-size)",
            "leave it out in `command`: one replica shows all there is, and an idle one records nothing",
        )
    decodes = window.phase == "decode"
    if decodes and not release.window:
        raise EnvironmentUnfit(
            f"vllm-ascend {release.version} records from its start on, and so no decode without the prefill",
            "ask for --phase both, or update it: from 0.20.2 on a recording can begin later",
        )
    skipped = request.warmup_steps if decodes else 0
    config = {"delay_iterations": 2 + skipped, "max_iterations": window.steps} if decodes else {}
    arguments, env = release.switched_on(request, config)
    started = _with(command, facts, (*arguments, "--host", "127.0.0.1", "--port", Named("{port}")))
    replaced = ("--profiler-config of the command is replaced",) if _configured(command, facts) else ()
    launch = Launch(
        started.argv,
        facts.path,
        env={**env, **started.env},
        shim=vllm_release.started_and_stopped(window.phase),
        server=Named("http://127.0.0.1:{port}"),
        trigger=tuple(_talk(request, window, model, skipped)),
        stop="recorded",
    )
    notes = ("the server listens on 127.0.0.1 and a free port, for this run alone", *started.notes, *replaced)
    return driven("vllm", request, launch, {window.phase: None}, files=started.files, notes=notes)


def _with(command: Sequence[str], facts: ProjectFacts, more: Sequence[str]) -> Started:
    if re.search(SERVER, shlex.join(command)):
        return Started((*command, *more), {}, {}, ())
    return with_arguments(command, facts, SERVER, more)


def _configured(command: Sequence[str], facts: ProjectFacts) -> bool:
    """The last of these arguments counts, and is ours."""
    return "--profiler-config" in text_of(command, facts)


def _talk(request: Request, window: Window, model: ModelSpec, skipped: int) -> list[dict[str, Any]]:
    """One prompt gives one forward of prefill; every token behind the first, one of decode."""
    options = model.options
    answer = {"prefill": 1, "both": 1 + window.steps, "decode": 2 + skipped + window.steps}[window.phase]
    asked = {
        "path": "/v1/completions",
        "json": {"max_tokens": answer, "temperature": 0, "ignore_eos": True},
        "prompts": {"count": options.get("batch", 1), "tokens": options.get("prompt_tokens", 512)},
        "phase": window.phase,
    }
    loads = window.steps if window.phase == "prefill" else 1
    return [
        {"do": "ready", "path": "/v1/models", "within_s": options.get("ready_timeout", READY_S)},
        {"do": "check", **asked},
        {"do": "warmup", **asked, "times": request.warmup_steps},
        {"do": "start", "path": "/start_profile", "within_s": SWITCH_S},
        {"do": "load", **asked, "times": loads},
        {"do": "stop", "path": "/stop_profile", "within_s": SWITCH_S},
    ]
