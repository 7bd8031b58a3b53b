"""The plan of a run: pure data, everything the host has to know, shown by `--dry-run` before anything happens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..request import Request

DRIVE = "drive.json"


class Named(str):
    """A word with names in braces that are known on the host only.

    {run}: its directory. {id}: its name. {master_addr}, {port}: where the processes of a job find each other; on one
    host, a port that is free. A plan's argv may also have {python} and {agent}; what is launched, {pythonpath}: the
    PYTHONPATH that it has, with the shim first.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """How to get a profile out of a program.

    files: text by path relative to the run directory. argv: may name {python}, {agent}, {run}, and {master_addr} and
    {port}, where the processes of the job find each other. env: what the route adds to the environment that the survey
    captured. expected: what the validation will hold the result against (level, aic_metrics, export, steps by phase
    (None: started and stopped, nobody counts), ranks).
    launch: the program of others that the agent drives. evidence: why this route. notes: what differs from what the
    user's own command would do. leased: whether devices are chosen and leased; a program that runs has its own.
    """

    route: str
    files: Mapping[str, str]
    argv: tuple[str, ...]
    env: Mapping[str, str]
    expected: Mapping[str, Any]
    launch: Launch | None = None
    evidence: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    leased: bool = True


@dataclass(frozen=True, slots=True)
class Launch:
    """A program that is not ours, and how its profiler is switched on: see `collect_agent.drive`.

    argv: empty for a program that runs already. cwd: a directory on the host. env: on top of the run's. shim: of the
    start-up shim `windows`, `phase_by`, `phase`, `step_on`, `watch`; None: the program's own profiler is left alone.
    trigger: what is said to the server at the URL `server`, in order (see `collect_agent.drive.http`). stop: "exit"
    when the program ends itself, "recorded" as soon as every window is closed. logs: patterns of the own logs of it,
    relative to cwd.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    shim: Mapping[str, Any] | None = None
    server: str = ""
    trigger: tuple[Mapping[str, Any], ...] = ()
    stop: Literal["exit", "recorded"] = "exit"
    logs: tuple[str, ...] = ()


def driven(
    route: str,
    request: Request,
    launch: Launch,
    steps: Mapping[str, int | None],
    *,
    files: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    leased: bool = True,
) -> Plan:
    """A plan whose program the agent drives. steps: active ones by phase, None where it is started and stopped."""
    asked = expected(request, steps)
    profiler = {
        **{name: getattr(request, name) for name in ("level", "with_stack", "record_shapes", "profile_memory")},
        "aic_metrics": asked["aic_metrics"],
        "export": asked["export"],
    }
    document = {
        "argv": [_braced(word, request) for word in launch.argv],
        "cwd": launch.cwd,
        "env": {name: _braced(value, request) for name, value in launch.env.items()},
        "shim": None if launch.shim is None else {**launch.shim, "profiler": profiler, "ranks": asked["ranks"]},
        "server": _braced(launch.server, request),
        "trigger": list(launch.trigger),
        "stop": launch.stop,
        "logs": list(launch.logs),
    }
    return Plan(
        route=route,
        files={**(files or {}), DRIVE: json.dumps(document, indent=1)},
        argv=("{python}", "{agent}", "drive", "{run}"),
        env={},
        expected=asked,
        launch=launch,
        notes=tuple(notes),
        leased=leased,
    )


def expected(request: Request, steps: Mapping[str, int | None]) -> dict[str, Any]:
    """What the validation holds the result against."""
    return {
        "level": f"Level{request.level}",
        "aic_metrics": request.aic_metrics if request.level else "AiCoreNone",
        "export": [request.export],
        "steps": dict(steps),
        "ranks": list(request.profiled_ranks),
    }


def _braced(word: str, request: Request) -> str:
    """As `str.format` takes it: a user's braces are their own, but for the words that place a host in its job."""
    if isinstance(word, Named):
        return word
    braced = word.replace("{", "{{").replace("}", "}}")
    of_the_job = {
        "node_rank": str(request.node_rank),
        "nodes": str(request.node_count),
        "master_addr": "{master_addr}",
        "master_port": "{port}",
    }
    for name, value in of_the_job.items():
        braced = braced.replace("{{" + name + "}}", value)
    return braced
