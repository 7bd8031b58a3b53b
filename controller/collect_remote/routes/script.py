"""Any program: a profiler of its own, or one step on a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import EnvironmentUnfit, UsageError
from ..inventory.hosts import ModelSpec
from ..inventory.options import calls
from ..request import Request, Window
from ..survey.project import ProjectFacts, Wants
from .plan import Launch, Plan, driven
from .route import ALL_STEPS, Match, Route

BUILDS, STEPS = ("torch_npu.profiler", "npu_profiler"), (".step(", ".start(")
TOKENS = ("prefill", "decode", "both")  # phases that are told apart by the tokens in the input of a call


def wants(_: Mapping[str, Any]) -> Wants:
    return Wants(words=(*BUILDS, *STEPS))


def detect(model: ModelSpec, facts: ProjectFacts) -> Match | None:
    """A profiler that is built and stepped in one file which the command reaches: an example's does not count."""
    if "step_on" in model.options:
        return Match((f"one step is a call of {', '.join(model.options['step_on'])}",))
    for path, words in facts.reached.items():
        if any(word in words for word in BUILDS) and any(word in words for word in STEPS):
            return Match((f"{path} has a torch_npu profiler and steps it",))
    return None


def lacking(options: Mapping[str, Any]) -> tuple[str, ...]:
    """A profiler of the program's own records what it does; of calls nobody knows how many there are."""
    return (ALL_STEPS,) if "step_on" in options else ("both",)


def plan(request: Request, window: Window, model: ModelSpec, facts: ProjectFacts) -> Plan:
    names = model.options.get("step_on", ())
    # Of a command that starts no Python file of the project nobody has seen what it has.
    seen = [path for path in facts.entries if path.endswith(".py")]
    if seen and detect(model, facts) is None:
        raise EnvironmentUnfit(
            f"the command of model {model.name} has no profiler of its own: {seen[0]} and what it imports use none",
            "say which call is one step: `step_on: [package.module:Class.method]`",
        )
    if request.all_steps and ALL_STEPS in lacking(model.options):
        raise UsageError("--steps all: nobody knows how many calls of `step_on` there are", "say how many to record")
    if window.phase in lacking(model.options):
        raise UsageError(
            f"--phase both: the profilers of model {model.name} are the program's own, and each records what it does",
            "ask for --phase separate, or say which call is one step (`step_on`)",
        )
    phases = window.step_counts
    numbers = {"skip_first": request.warmup_steps, "wait": 0, "warmup": 1}
    only = next(iter(phases)) if len(phases) == 1 else None
    shim = {
        # All steps: the window that the program itself makes.
        "windows": {phase: None if request.all_steps else {**numbers, "active": phases[phase]} for phase in phases},
        "phase_by": [[rf"(^|[/_-]){phase}([/_-]|$)", phase] for phase in phases],
        "phase": only,
        "step_on": [{"call": name, "phase": None if only in TOKENS else only} for name in names],
        "watch": [],
    }
    launch = Launch(tuple(model.options["command"]), facts.path, shim=shim, stop="recorded")
    return driven("script", request, launch, dict.fromkeys(phases) if request.all_steps else phases)


ROUTE = Route(
    "script",
    ("forward", "train", "prefill", "decode", "separate", "both"),
    detect,
    plan,
    wants,
    {"step_on": calls},
    all_steps=True,
    lacking=lacking,
)
