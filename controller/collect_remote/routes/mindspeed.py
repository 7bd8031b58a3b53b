"""Training with MindSpeed-LLM, MindSpeed-MM, or MindSpeed under Megatron-LM: their own switches, as arguments.

Read in MindSpeed-LLM @ c77308a, MindSpeed @ 028de58, MindSpeed-MM @ 57069cd and Megatron-LM @ d98e8a6 (2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import EnvironmentUnfit, UsageError
from ..inventory.hosts import ModelSpec
from ..inventory.options import count
from ..request import Request, Window
from ..survey.project import ProjectFacts, Wants
from .launch_script import number_of, program_of, with_arguments
from .mindspeed_switches import DIALECTS, IMPORTS, PACKAGES, TOOLS, Dialect, dialect_of
from .plan import Launch, Plan, driven
from .route import Match, Route

PROGRAMS = r"(?:pretrain|posttrain|train|finetune)\w*\.py"
LEAST_BEFORE = 3  # iterations that compile, allocate and connect
PROFILER_WARMUP = 1


def wants(_: Mapping[str, Any]) -> Wants:
    return Wants((TOOLS,), (*IMPORTS, *(dialect.word for dialect in DIALECTS)), PACKAGES)


def detect(model: ModelSpec, facts: ProjectFacts) -> Match | None:
    command = model.options.get("command", ())
    program = program_of(command, facts, PROGRAMS)
    dialect = dialect_of(program, facts) if program else None
    if dialect is None:
        return None
    installed = [f"{name} {version} is installed" for name in PACKAGES if (version := facts.versions.get(name))]
    ranks, nodes = (number_of(f"--{name}", command, facts) for name in ("nproc[_-]per[_-]node", "nnodes"))
    return Match((f"{program} takes {dialect.word}", *installed), ranks=ranks, nodes=nodes)


def plan(request: Request, window: Window, model: ModelSpec, facts: ProjectFacts) -> Plan:
    command = model.options["command"]
    dialect = _dialect(command, model, facts)
    done, before = model.options.get("resumed_at", 0), max(request.warmup_steps, LEAST_BEFORE)
    iterations = number_of(r"--(?:train-iters|training\.max_steps)", command, facts)
    active = _active(request, window, before + PROFILER_WARMUP, None if iterations is None else iterations - done)
    _require_place(request, command, facts)
    switched = dialect.switch(request, done + before + PROFILER_WARMUP + 1, active, facts)
    started = with_arguments(command, facts, PROGRAMS, switched.arguments)
    shim = {
        "windows": {"train": {"skip_first": before, "wait": 0, "warmup": PROFILER_WARMUP, "active": active}},
        "phase_by": [],
        "phase": "train",
        "step_on": [],
        "watch": [],
    }
    launch = Launch(started.argv, facts.path, started.env, shim, stop="recorded")
    files = {**started.files, **switched.files}
    notes = (*started.notes, "the job is ended as soon as its window is recorded")
    return driven("mindspeed", request, launch, {"train": active}, files=files, notes=notes)


def _require_place(request: Request, command: list[str], facts: ProjectFacts) -> None:
    """UsageError when the command says itself where this host stands in the job, and says it otherwise."""
    said = number_of("--node[_-]rank", command, facts)
    if said not in (None, request.node_rank):
        raise UsageError(
            f"--node_rank of the command on {request.host} is {said}, and it has the place {request.node_rank}",
            "have the script take it from its environment: `NODE_RANK=${NODE_RANK:-0}`, and the master's too",
        )


def _dialect(command: list[str], model: ModelSpec, facts: ProjectFacts) -> Dialect:
    program = program_of(command, facts, PROGRAMS)
    if program is None:
        raise EnvironmentUnfit(
            f"the command of model {model.name} does not show the program that trains (pretrain_gpt.py, ...)",
            "give the command that starts it as `command`, or that of the script which does",
        )
    dialect = dialect_of(program, facts)
    if dialect is None:
        raise EnvironmentUnfit(
            f"{program} in {facts.path} takes no arguments for a profiler of torch_npu: there is no MindSpeed",
            "Megatron's own profiler is none for NPUs; install MindSpeed, or use `route: script` with `step_on`",
        )
    return dialect


def _active(request: Request, window: Window, before: int, iterations: int | None) -> int:
    """Iterations to record, after `before`; `iterations`: those that this job makes, None where that does not show."""
    if request.all_steps:
        if iterations is None:
            raise UsageError("--steps all: the command does not show how many iterations there are", "say how many")
        return max(iterations - before, 1)
    if iterations is not None and iterations < before + window.steps:
        raise UsageError(
            f"the job makes {iterations} iterations, and {window.steps} after {before} are to be recorded",
            "raise --train-iters of the command, or ask for fewer (--steps, --warmup-steps)",
        )
    return window.steps


ROUTE = Route("mindspeed", ("train",), detect, plan, wants, {"resumed_at": count}, all_steps=True)
