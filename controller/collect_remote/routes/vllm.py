"""vLLM on Ascend: a server that is talked to (`vllm_server`), or a script of offline inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UsageError
from ..inventory.hosts import ModelSpec
from ..inventory.options import count
from ..request import Request, Window
from ..survey.project import ProjectFacts, Wants
from . import vllm_release, vllm_server
from .plan import Launch, Plan, driven
from .route import Match, Route

IMPORTS, STARTS = ("from vllm import", "import vllm", "from vllm."), ".start_profile("


def wants(_: Mapping[str, Any]) -> Wants:
    return Wants(words=(*IMPORTS, STARTS), distributions=("vllm_ascend",))


def detect(model: ModelSpec, facts: ProjectFacts) -> Match | None:
    version = facts.versions.get("vllm_ascend")
    command = model.options.get("command", ())
    installed = f"vllm_ascend {version} is installed" if version else "vllm_ascend is not seen: taken for the newest"
    if vllm_server.starts(command, facts):
        return Match(("the command starts a vLLM server", installed), version, vllm_server.ranks(command, facts))
    for path, found in facts.reached.items():
        if any(word in found for word in IMPORTS):
            return Match((f"{path} imports vllm", installed), version)
    return None


def plan(request: Request, window: Window, model: ModelSpec, facts: ProjectFacts) -> Plan:
    release = vllm_release.of(facts.versions.get("vllm_ascend"))
    if vllm_server.starts(model.options["command"], facts):
        return vllm_server.plan(request, window, model, facts, release)
    if any(STARTS in found for found in facts.reached.values()):
        return _own_recording(request, window, model, facts, release)
    return _forwards(request, window, model, facts)


def _own_recording(
    request: Request, window: Window, model: ModelSpec, facts: ProjectFacts, release: vllm_release.Release
) -> Plan:
    """What the script has between `start_profile` and `stop_profile`."""
    if window.phase != "both":
        raise UsageError(
            f"the script of model {model.name} starts and stops its profiler itself, whatever comes in between",
            "ask for --phase both",
        )
    arguments, env = release.switched_on(request, {})
    launch = Launch(
        tuple(model.options["command"]),
        facts.path,
        env=env,
        shim=vllm_release.started_and_stopped("both", [vllm_release.STEP]),
        stop="recorded",
    )
    needed = ("the script has to give LLM a profiler_config itself, as vLLM wants it",) if arguments else ()
    return driven("vllm", request, launch, {"both": None}, notes=needed)


def _forwards(request: Request, window: Window, model: ModelSpec, facts: ProjectFacts) -> Plan:
    """A script that knows of no profiler: the forwards that it comes to are the steps."""
    windows = {
        phase: {"skip_first": request.warmup_steps, "wait": 0, "warmup": 1, "active": active}
        for phase, active in window.step_counts.items()
    }
    steps: Sequence[Mapping[str, Any]] = [{"call": vllm_release.STEP, "phase": None}]
    shim = {"windows": windows, "phase_by": [], "phase": None, "step_on": steps, "watch": []}
    launch = Launch(tuple(model.options["command"]), facts.path, shim=shim, stop="recorded")
    return driven("vllm", request, launch, {**window.step_counts})


ROUTE = Route(
    "vllm",
    ("both", "prefill", "decode"),
    detect,
    plan,
    wants,
    {"prompt_tokens": count, "batch": count, "ready_timeout": count},
    on_several=False,
)
