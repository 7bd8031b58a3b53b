"""The pipeline of one run, from a request to a published result; every stage takes data and returns data.

plan -> connect -> survey -> choose a device -> start the run -> bring its result (see `bring`)
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from collect_agent import npu
from collect_agent.acquire import described

from . import __version__, checks, containers, deploy, store
from .bring import Result, bring, stopped
from .devices import Group, Verdict, groups, out_of_reach, verdicts
from .errors import Interrupted, NoFreeDevice, StorageError, TransferError, from_agent
from .estimate import need
from .inventory import Host
from .remote import Remote
from .request import Request, window
from .routes import template
from .routes.plan import Plan
from .run import Run
from .session import Log, OnEvent, session
from .survey import Facts, survey
from .tenacity import Tenacity

ORPHAN_S = 600.0  # without a follower
ORPHAN_SLACK_S = 60.0  # more than a controller tries to come back


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would do: `collect-remote --dry-run`."""

    facts: Facts
    verdicts: tuple[Verdict, ...]
    devices: Group
    plan: Plan
    agent: str


def collect(request: Request, host: Host, on_event: OnEvent | None = None) -> Result:
    """Collect one profile and publish it. Raises the CollectError that says what went wrong.

    `on_event` is called in this thread with every event: the controller's own stages and those of the agent.
    KeyboardInterrupt stops the run on the host and becomes Interrupted.
    """
    run_id = _new_id()
    place = store.place(request.host, request.model, run_id, request.out)
    plan = _plan(request, host)
    with store.incoming(place) as incoming, session(host, on_event) as (remote, log):
        run, asked = _planned(request, host, plan, run_id, remote, log)
        return bring(run, place, incoming, asked, log)


def start(request: Request, host: Host, on_event: OnEvent | None = None) -> Run:
    """Start a run that needs nobody to follow it; it is there, under its id, when this returns.

    Raises the CollectError that says why it was not started.
    """
    plan = _plan(request, host)
    with session(host, on_event) as (remote, log):
        run, _ = _planned(request, host, plan, _new_id(), remote, log, detached=True)
        try:
            with contextlib.closing(run.events()) as events:
                event = next(event for event in events if event["stage"] != "created")
        except KeyboardInterrupt as interrupt:
            raise Interrupted(f"interrupted: {stopped(run)}") from interrupt
        except TransferError:  # it is not known what was started there
            stopped(run)
            raise
        if event["stage"] == "end" and event.get("status") != "done":
            raise from_agent(event["error"])
        log.kept = f"run {run.id} goes on: {run.how_to_go_on}"
        return run


def preview(request: Request, host: Host, on_event: OnEvent | None = None) -> Preview:
    """Everything up to the plan; nothing is uploaded or started."""
    plan = _plan(request, host)
    with session(host, on_event) as (remote, log):
        facts, judged = _prepare(request, host, remote, log)
    return Preview(facts, judged, groups(judged, request.wish)[0], plan, deploy.build().name)


def document(
    request: Request, run_id: str, plan: Plan, facts: Facts, judged: Sequence[Verdict], *, detached: bool = False
) -> dict[str, Any]:
    """What the agent gets to start a run: see `collect_agent.start`. A detached one needs no follower."""
    asked = dataclasses.asdict(request)
    del asked["out"]
    return {
        "run_id": run_id,
        "workdir": facts.workdir,
        "host": request.host,
        "model": request.model,
        "route": plan.route,
        "request": asked,
        "versions": {
            "collect_remote": __version__,
            "agent": deploy.build().name,
            "cann": facts.cann_version,
            **facts.versions,
        },
        "wish": dataclasses.asdict(request.wish),
        "groups": [[described(device) for device in group] for group in npu.groups(judged, request.wish)],
        "refused": npu.reasons(judged, request.wish),
        "visible_devices": facts.visible_devices,
        "container": facts.box_document,
        "allow_shared": request.allow_shared,
        "keep_raw": request.keep_raw,
        "salvage": request.salvage,
        "wait_s": request.wait,
        "files": dict(plan.files),
        "argv": list(plan.argv),
        "env": dict(plan.env),
        "expected": dict(plan.expected),
        "deadline_s": request.timeout,
        "orphan_s": None if detached else max(ORPHAN_S, request.reconnect_for + ORPHAN_SLACK_S),
    }


def devices(host: Host, on_event: OnEvent | None = None) -> tuple[Verdict, ...]:
    """The verdict on every NPU of a host, in npu-smi's order."""
    with session(host, on_event) as (remote, log):
        log(stage="survey")
        return verdicts(survey(remote, host, deploy.build().name))


def deploy_agent(host: Host) -> str:
    """Put the agent on a host, unless it is there; its path on the host."""
    agent = deploy.build()
    with session(host, None) as (remote, log):
        log(stage="survey")
        facts = survey(remote, host, agent.name)
        checks.require(checks.of_host(facts))
        if not facts.agent_present:
            log(stage="deploy")
            upload = f"umask 027\n{deploy.upload_script(agent, facts.workdir)}"
            with containers.stream(remote, facts.container, upload) as stream:
                said = list(stream.lines(timeout=60))
                if stream.status() != 0:
                    raise StorageError(f"the agent could not be written: {b' '.join(said[-1:]).decode()}", "try again")
    return agent.path(facts.workdir)


def _new_id() -> str:
    return f"{datetime.now():%Y%m%d_%H%M%S}_{secrets.token_hex(3)}"


def _planned(
    request: Request, host: Host, plan: Plan, run_id: str, remote: Remote, log: Log, *, detached: bool = False
) -> tuple[Run, dict[str, Any]]:
    """The run that the request means on this host, about to start, and the document it is asked for with."""
    facts, judged = _prepare(request, host, remote, log)
    asked = document(request, run_id, plan, facts, judged, detached=detached)
    log(stage="start", run=run_id, upload=not facts.agent_present)
    return Run(deploy.Deployed(remote, facts), run_id, request.reconnect_for, asked), asked


def _plan(request: Request, host: Host) -> Plan:
    model = host.model(request.model)
    return template.plan(request, window(request, model), model)


def _prepare(request: Request, host: Host, remote: Remote, log: Log) -> tuple[Facts, tuple[Verdict, ...]]:
    """What the host is like, and what may be used on it; NoFreeDevice when nobody wants to wait, or would in vain."""
    log(stage="survey")
    facts = Tenacity(remote).persist(lambda: survey(remote, host, deploy.build().name, more=True))
    name = facts.container.name if facts.container else None
    found = {"python": facts.python, "why": facts.python_why, "cann": facts.cann_version, "setup": list(facts.setup)}
    log(stage="survey", container=name, **found)
    model = host.model(request.model)
    checks.require(checks.of_host(facts, need(request, window(request, model)), model))
    preset = {} if facts.visible_devices is None else {"visible_devices": facts.visible_devices, "container": name}
    log(stage="choose", **preset)
    judged = verdicts(facts, request.wish)
    try:
        groups(judged, request.wish)
    except NoFreeDevice as refused:
        if out_of_reach(judged, request.wish, facts.visible_devices, facts.box_document):
            refused.remedy = f"no waiting helps: {_within_reach(facts)}"
        elif request.wait:
            return facts, judged
        raise
    return facts, judged


def _within_reach(facts: Facts) -> str:
    """What to do when what a program there may use does not suffice, whoever releases theirs."""
    if facts.container is None:
        return "name devices inside ASCEND_RT_VISIBLE_DEVICES, or unset it on the host"
    preset = "" if facts.visible_devices is None else " and its ASCEND_RT_VISIBLE_DEVICES"
    return f"name devices that the container has{preset}, or start it with more (--device /dev/davinciN)"
