"""From what is known of a host to the run that is asked of it: checks, choice of devices, the agent's document."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from collect_agent.npu import choice
from collect_agent.npu.acquire import described

from .. import __version__, agent_file, checks
from ..checks.estimate import need
from ..errors import NoFreeDevice, UsageError
from ..inventory import Host, ModelSpec
from ..npus.judged import Verdict, groups, out_of_reach, verdicts
from ..request import Request, Window
from ..routes.plan import Plan
from ..survey.survey import Facts
from .session import Log

ORPHAN_S = 600.0  # without a follower
ORPHAN_SLACK_S = 60.0  # more than a controller tries to come back


def fit(facts: Facts, log: Log) -> None:
    """Say what was found. Raises the error of the first check that stops any run."""
    name = facts.container.name if facts.container else None
    found = {"python": facts.python, "why": facts.python_why, "cann": facts.cann_version, "setup": list(facts.setup)}
    log(stage="survey", container=name, **found)
    checks.require(checks.of_host(facts))


def choose(request: Request, model: ModelSpec, window: Window, facts: Facts, log: Log) -> tuple[Verdict, ...]:
    """The verdicts on the host's devices. Raises the error of the first check that stops this run.

    NoFreeDevice when nobody wants to wait for one, or would in vain.
    """
    checks.require(checks.of_host(facts, need(request, window), model))
    name = facts.container.name if facts.container else None
    preset = {} if facts.visible_devices is None else {"visible_devices": facts.visible_devices, "container": name}
    log(stage="choose", **preset)
    judged = verdicts(facts, request.wish)
    try:
        groups(judged, request.wish)
    except NoFreeDevice as refused:
        if out_of_reach(judged, request.wish, facts.visible_devices, facts.box_document):
            refused.remedy = f"no waiting helps: {_within_reach(facts)}"
        elif request.wait:
            return judged
        raise
    return judged


def document(
    request: Request,
    run_id: str,
    plan: Plan,
    facts: Facts,
    judged: Sequence[Verdict],
    *,
    detached: bool = False,
    link_bytes_s: float | None = None,
    first: Host | None = None,
) -> dict[str, Any]:
    """What the agent gets to start a run: see `collect_agent.run.start`. A detached one needs no follower.

    `link_bytes_s`: how fast the result can be brought, where that was measured. `first`: of the hosts of the job.
    """
    asked = dataclasses.asdict(request)
    del asked["out"]
    groups_of = choice.groups(judged, request.wish) if plan.leased else []
    return {
        "run_id": run_id,
        "workdir": facts.workdir,
        "host": request.host,
        "model": request.model,
        "route": plan.route,
        "notes": [*plan.evidence, *plan.notes],
        "request": asked,
        "versions": {
            "collect_remote": __version__,
            "agent": agent_file.build().name,
            "cann": facts.cann_version,
            **facts.versions,
        },
        "wish": dataclasses.asdict(request.wish),
        "leased": plan.leased,
        "node": place_in_job(request, first),
        "groups": [[described(device) for device in group] for group in groups_of],
        "refused": choice.reasons(judged, request.wish) if plan.leased else [],
        "visible_devices": facts.visible_devices,
        "container": facts.box_document,
        "allow_shared": request.allow_shared,
        "keep_raw": request.keep_raw,
        "salvage": request.salvage,
        "link_bytes_s": link_bytes_s,
        "wait_s": request.wait,
        "files": dict(plan.files),
        "argv": list(plan.argv),
        "env": dict(plan.env),
        "expected": dict(plan.expected),
        "deadline_s": request.timeout,
        "orphan_s": None if detached else max(ORPHAN_S, request.reconnect_for + ORPHAN_SLACK_S),
    }


def place_in_job(request: Request, first: Host | None) -> dict[str, Any] | None:
    """Where the host of `request` stands among those of its job, and where the first one's is met: see
    `collect_agent.run.together`. master_port: None for one that is free there. None without a `first`: it is alone.

    UsageError for what is no port.
    """
    if first is None:
        return None
    port = first.env.get("MASTER_PORT")
    if port is not None and not (port.isdecimal() and 0 < int(port) < 1 << 16):
        raise UsageError(f"MASTER_PORT of {first.name} is {port!r}", "write a port from 1 to 65535, or leave it out")
    return {
        "rank": request.node_rank,
        "count": request.node_count,
        "master_addr": first.env.get("MASTER_ADDR", first.address),
        "master_port": None if port is None else int(port),
    }


def _within_reach(facts: Facts) -> str:
    """What to do when what a program there may use does not suffice, whoever releases theirs."""
    if facts.container is None:
        return "name devices inside ASCEND_RT_VISIBLE_DEVICES, or unset it on the host"
    preset = "" if facts.visible_devices is None else " and its ASCEND_RT_VISIBLE_DEVICES"
    return f"name devices that the container has{preset}, or start it with more (--device /dev/davinciN)"
