"""How a profiler of MindSpeed is switched on, in each of its dialects."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import EnvironmentUnfit
from ..request import Request
from ..survey.project import ProjectFacts
from .plan import Named

PACKAGES = ("mindspeed", "mindspeed_llm")
IMPORTS = ("mindspeed", "megatron")  # one of them, or it is any program that trains
TOOLS = "mindspeed_mm/tools/tools.json"
OWN_OUTPUT = Named("{run}/own")  # where the framework would write; the shim has it written elsewhere


@dataclass(frozen=True, slots=True)
class Switched:
    arguments: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dialect:
    """`word`: of an argument parser that has the switch. `switch(request, first, active, facts)`: `first` is the
    iteration, counted from 1, in which recording begins.
    """

    word: str
    switch: Callable[[Request, int, int, ProjectFacts], Switched]


def _llm(request: Request, first: int, active: int, _: ProjectFacts) -> Switched:
    """MindSpeed-LLM and MindSpeed Core. Without CPU activity there would be no steps in the tables."""
    ranks = map(str, request.profiled_ranks)
    return Switched(
        (
            *("--profile", "--profile-step-start", str(first), "--profile-step-end", str(first + active)),
            *("--profile-ranks", *ranks, "--profile-level", f"level{request.level}", "--profile-with-cpu"),
            *("--profile-export-type", "text", "--profile-save-path", OWN_OUTPUT),
        )
    )


def _fsdp2(request: Request, first: int, active: int, _: ProjectFacts) -> Switched:
    """The same by other names, counted from 0; without an end it would never close its window."""
    start, end = str(first - 1), str(first - 1 + active)
    ranks = map(str, request.profiled_ranks)
    return Switched(
        (
            *("--training.profile", "true", "--training.profile_step_start", start),
            *("--training.profile_step_end", end, "--training.profile_ranks", *ranks),
            *("--training.profile_level", f"level{request.level}", "--training.profile_with_cpu", "true"),
            *("--training.profile_export_type", "text", "--training.profile_save_path", OWN_OUTPUT),
        )
    )


def _mm(request: Request, first: int, active: int, facts: ProjectFacts) -> Switched:
    """MindSpeed-MM reads a file: a copy of the one in the checkout."""
    try:
        tools = json.loads(facts.texts[TOOLS])
        profile, static = tools["profile"], tools["profile"]["static_param"]
    except (KeyError, TypeError, ValueError) as error:
        raise EnvironmentUnfit(
            f"{TOOLS} in {facts.path} is not there, or describes no static profiler", "take it from MindSpeed-MM again"
        ) from error
    profile.update(enable=True, profile_type="static", ranks=list(request.profiled_ranks))
    static.update(
        level=f"level{request.level}",
        with_cpu=True,
        start_step=first - 1,
        end_step=first - 1 + active,
        aic_metrics_type=request.aic_metrics,
    )
    return Switched(("--mm-tool", Named("{run}/tools.json")), {"tools.json": json.dumps(tools, indent=4) + "\n"})


FSDP2 = Dialect("--training.profile", _fsdp2)
MM = Dialect("--mm-tool", _mm)
LLM = Dialect("--profile-level", _llm)
DIALECTS = (FSDP2, MM, LLM)


def dialect_of(program: str, facts: ProjectFacts) -> Dialect | None:
    """None for a program that has no such switch: Megatron-LM alone has one for other profilers."""
    reached = {word for words in facts.reached.values() for word in words}
    if not reached & set(IMPORTS):
        return None
    if program == "train_fsdp2.py":
        return FSDP2
    if MM.word in reached:
        return MM
    if facts.hits.get(LLM.word) or any(facts.versions.get(name) for name in PACKAGES):
        return LLM
    return None
