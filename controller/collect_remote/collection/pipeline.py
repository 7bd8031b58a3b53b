"""The pipeline of one run, from a request to a published result; every stage takes data and returns data.

(plan) -> connect -> survey -> plan -> choose a device -> start the run -> bring its result (see `bring`)
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .. import agent_file, containers
from ..cancel import Cancel
from ..errors import CollectError, Interrupted, StorageError, TransferError, UsageError, from_agent
from ..inventory import Host, ModelSpec
from ..request import Request, Window
from ..results import growing, store
from ..routes.choose import early, gives_way, in_place_of, late, model_of, wanted
from ..routes.plan import Plan
from ..ssh.remote import Remote
from ..ssh.tenacity import Tenacity
from ..survey.survey import Facts, survey
from .deploy import Deployed
from .session import Log, OnEvent, session

if TYPE_CHECKING:
    from ..npus.judged import Group, Verdict
    from ..results.profile import Profile
    from .run import Run


Decided = tuple[Window, Plan] | None  # before the host was asked


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would do: `collect-remote --dry-run`. `node`: the place of its host in a job of several."""

    host: str
    facts: Facts
    verdicts: tuple[Verdict, ...]
    devices: Group
    plan: Plan
    agent: str
    node: Mapping[str, Any] | None = None


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
    _require_one(request)
    model = model_of(request, host)
    ready = early(request, model)
    place = store.place(request.host, request.model, run_id, request.out)
    with growing.incoming(place), session(host, on_event, cancel) as (remote, log):
        try:
            # --out is one place: what comes of it then is the template's.
            asked = dataclasses.replace(request, salvage=request.salvage and model.fallback is None)
            return _collected(asked, host, model, ready, (run_id, place), remote, log)
        except CollectError as error:
            if model.fallback is None or not gives_way(error):
                raise
            return _fallen_back(request, host, model, error, run_id, remote, log)


def fall_back(
    request: Request,
    host: Host,
    error: CollectError,
    run_id: str,
    on_event: OnEvent | None = None,
    cancel: Cancel | None = None,
) -> Profile:
    """What `collect` does when its run has ended with `error`, where the tool has not lived to do it.

    Raises `error` when the model has no fallback, or it is none of those for which there is one; else as `collect`.
    """
    model = model_of(request, host)
    if model.fallback is None or not gives_way(error):
        raise error
    with session(host, on_event, cancel) as (remote, log):
        return _fallen_back(request, host, model, error, run_id, remote, log)


def fallback_id(run_id: str) -> str:
    """Of the template's run in place of that one: another of the same form, and who knows the first finds it."""
    return f"{run_id[:-1]}{int(run_id[-1], 16) ^ 1:x}"


def _fallen_back(
    request: Request, host: Host, model: ModelSpec, error: CollectError, run_id: str, remote: Remote, log: Log
) -> Profile:
    assert model.fallback is not None  # noqa: S101 - or nobody would ask
    log(stage="fallback", instead_of=model.route, message=error.message, entry=error.entry)
    ready, again = in_place_of(model, error.message, request), fallback_id(run_id)
    place = store.place(request.host, request.model, again, request.out)
    with growing.incoming(place):
        return _collected(request, host, model.fallback, ready, (again, place), remote, log)


def _collected(
    request: Request,
    host: Host,
    model: ModelSpec,
    ready: Decided,
    named: tuple[str, store.Place],
    remote: Remote,
    log: Log,
) -> Profile:
    """`named`: the run's id, and where its result will be."""
    run_id, place = named
    run, asked = planned(request, host, model, ready, run_id, remote, log)
    from .bring import bring

    return bring(run, place, asked, log)


def start(request: Request, host: Host, on_event: OnEvent | None = None) -> Run:
    """Start a run that needs nobody to follow it; it is there, under its id, when this returns.

    Raises the CollectError that says why it was not started.
    """
    _require_one(request)
    model = model_of(request, host)
    ready = early(request, model)
    with session(host, on_event) as (remote, log):
        run, _ = planned(request, host, model, ready, new_run_id(), remote, log, detached=True)
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


def preview(request: Request, host: Host, on_event: OnEvent | None = None, *, first: Host | None = None) -> Preview:
    """Everything up to the plan; nothing is uploaded or started. `first`: see `planned`."""
    model = model_of(request, host)
    ready = early(request, model)
    with session(host, on_event) as (remote, log):
        facts, judged, plan = _decided(request, host, model, ready, remote, log)
        from ..npus.judged import groups
    devices = groups(judged, request.wish)[0] if plan.leased else ()
    from .launch import place_in_job

    return Preview(host.name, facts, judged, devices, plan, agent_file.build().name, place_in_job(request, first))


def devices(host: Host, on_event: OnEvent | None = None) -> tuple[Verdict, ...]:
    """The verdict on every NPU of a host, in npu-smi's order."""
    with session(host, on_event) as (remote, log):
        log(stage="survey")
        facts = survey(remote, host, agent_file.build().name)
    from ..npus.judged import verdicts

    return verdicts(facts)


def deploy_agent(host: Host) -> str:
    """Put the agent on a host, unless it is there; its path on the host."""
    agent = agent_file.build()
    with session(host, None) as (remote, log):
        log(stage="survey")
        facts = survey(remote, host, agent.name)
        from .. import checks

        checks.require(checks.of_host(facts))
        if not facts.agent_present:
            log(stage="deploy")
            upload = f"umask 027\n{agent_file.upload_script(agent, facts.workdir)}"
            with containers.stream(remote, facts.container, upload) as stream:
                said = list(stream.lines(timeout=60))
                if stream.status() != 0:
                    raise StorageError(f"the agent could not be written: {b' '.join(said[-1:]).decode()}", "try again")
    return agent.path(facts.workdir)


def new_run_id() -> str:
    """Nobody has it a second time, and it tells when it was made."""
    return f"{datetime.now():%Y%m%d_%H%M%S}_{os.urandom(3).hex()}"


def _require_one(request: Request) -> None:
    if request.nodes:
        raise UsageError("the request is for a job on several hosts", "see `collect_job`")


def planned(
    request: Request,
    host: Host,
    model: ModelSpec,
    ready: Decided,
    run_id: str,
    remote: Remote,
    log: Log,
    *,
    detached: bool = False,
    first: Host | None = None,
) -> tuple[Run, dict[str, Any]]:
    """The run that the request means on this host, about to start, and the document it is asked for with.

    `first`: of the hosts of the job that the run is a part of.
    """
    facts, judged, plan = _decided(request, host, model, ready, remote, log)
    from .launch import document
    from .run import Run

    link = remote.login.link_bytes_s if remote.login else None
    asked = document(request, run_id, plan, facts, judged, detached=detached, link_bytes_s=link, first=first)
    log(stage="start", run=run_id, upload=not facts.agent_present)
    return Run(Deployed(remote, facts), run_id, request.reconnect_for, asked), asked


def _decided(
    request: Request, host: Host, model: ModelSpec, ready: Decided, remote: Remote, log: Log
) -> tuple[Facts, tuple[Verdict, ...], Plan]:
    """What is known of the host, its devices as judged for the request, and the plan."""
    facts = _surveyed(host, remote, log, wanted(model))
    from .launch import choose, fit

    fit(facts, log)
    if ready is None:
        assert facts.project is not None  # noqa: S101 - it was asked for
        log(stage="route")
        ready = late(request, model, facts.project)
        log(stage="route", route=ready[1].route, evidence=list(ready[1].evidence), notes=list(ready[1].notes))
    decided, plan = ready
    return facts, choose(request, model, decided, facts, log) if plan.leased else (), plan


def _surveyed(host: Host, remote: Remote, log: Log, look: str) -> Facts:
    log(stage="survey")
    agent = agent_file.build().name
    return Tenacity(remote).persist(lambda: survey(remote, host, agent, lambda: _meanwhile(remote), look))


def _meanwhile(remote: Remote) -> None:
    """While the host is looked at: the next script is to follow, and what comes then takes its time to import."""
    remote.prepare()
    from . import bring, launch  # noqa: F401
