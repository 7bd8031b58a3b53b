"""The pipeline of one run, from a request to a published result; every stage takes data and returns data.

plan -> connect -> survey -> choose a device -> start the run -> bring its result (see `bring`)
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from . import containers, deploy, growing, store
from .cancel import Cancel
from .errors import Interrupted, StorageError, TransferError, from_agent
from .inventory import Host
from .remote import Remote
from .request import Request, window
from .routes import template
from .routes.plan import Plan
from .session import Log, OnEvent, session
from .survey import Facts, survey
from .tenacity import Tenacity

if TYPE_CHECKING:
    from .devices import Group, Verdict
    from .profile import Profile
    from .run import Run


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would do: `collect-remote --dry-run`."""

    facts: Facts
    verdicts: tuple[Verdict, ...]
    devices: Group
    plan: Plan
    agent: str


def collect(
    request: Request,
    host: Host,
    on_event: OnEvent | None = None,
    *,
    cancel: Cancel | None = None,
    run_id: str | None = None,
) -> Profile:
    """Collect one profile and publish it. Raises the CollectError that says what went wrong.

    `on_event` is called in this thread with every event: the controller's own stages and those of the agent.
    KeyboardInterrupt stops the run on the host and becomes Interrupted; so does `cancel`, which another thread sets.
    `run_id`: one of `new_run_id`, for whoever writes it down before anything is started.
    """
    run_id = run_id or new_run_id()
    place = store.place(request.host, request.model, run_id, request.out)
    plan = _plan(request, host)
    with growing.incoming(place), session(host, on_event, cancel) as (remote, log):
        run, asked = _planned(request, host, plan, run_id, remote, log)
        from .bring import bring

        return bring(run, place, asked, log)


def start(request: Request, host: Host, on_event: OnEvent | None = None) -> Run:
    """Start a run that needs nobody to follow it; it is there, under its id, when this returns.

    Raises the CollectError that says why it was not started.
    """
    plan = _plan(request, host)
    with session(host, on_event) as (remote, log):
        run, _ = _planned(request, host, plan, new_run_id(), remote, log, detached=True)
        from .bring import stopped

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
        facts = _surveyed(host, remote, log)
        from .devices import groups
        from .launch import choose

        judged = choose(request, host, facts, log)
    return Preview(facts, judged, groups(judged, request.wish)[0], plan, deploy.build().name)


def devices(host: Host, on_event: OnEvent | None = None) -> tuple[Verdict, ...]:
    """The verdict on every NPU of a host, in npu-smi's order."""
    with session(host, on_event) as (remote, log):
        log(stage="survey")
        facts = survey(remote, host, deploy.build().name)
    from .devices import verdicts

    return verdicts(facts)


def deploy_agent(host: Host) -> str:
    """Put the agent on a host, unless it is there; its path on the host."""
    agent = deploy.build()
    with session(host, None) as (remote, log):
        log(stage="survey")
        facts = survey(remote, host, agent.name)
        from . import checks

        checks.require(checks.of_host(facts))
        if not facts.agent_present:
            log(stage="deploy")
            upload = f"umask 027\n{deploy.upload_script(agent, facts.workdir)}"
            with containers.stream(remote, facts.container, upload) as stream:
                said = list(stream.lines(timeout=60))
                if stream.status() != 0:
                    raise StorageError(f"the agent could not be written: {b' '.join(said[-1:]).decode()}", "try again")
    return agent.path(facts.workdir)


def new_run_id() -> str:
    """Nobody has it a second time, and it tells when it was made."""
    return f"{datetime.now():%Y%m%d_%H%M%S}_{os.urandom(3).hex()}"


def _planned(
    request: Request, host: Host, plan: Plan, run_id: str, remote: Remote, log: Log, *, detached: bool = False
) -> tuple[Run, dict[str, Any]]:
    """The run that the request means on this host, about to start, and the document it is asked for with."""
    facts = _surveyed(host, remote, log)
    from .launch import choose, document
    from .run import Run

    judged = choose(request, host, facts, log)
    link = remote.login.link_bytes_s if remote.login else None
    asked = document(request, run_id, plan, facts, judged, detached=detached, link_bytes_s=link)
    log(stage="start", run=run_id, upload=not facts.agent_present)
    return Run(deploy.Deployed(remote, facts), run_id, request.reconnect_for, asked), asked


def _plan(request: Request, host: Host) -> Plan:
    model = host.model(request.model)
    return template.plan(request, window(request, model), model)


def _surveyed(host: Host, remote: Remote, log: Log) -> Facts:
    log(stage="survey")
    return Tenacity(remote).persist(lambda: survey(remote, host, deploy.build().name, lambda: _meanwhile(remote)))


def _meanwhile(remote: Remote) -> None:
    """While the host is looked at: the next script is to follow, and what comes then takes its time to import."""
    remote.prepare()
    from . import bring, launch  # noqa: F401
