"""The pipeline of one run, from a request to a published result; every stage takes data and returns data.

connect -> survey -> choose a device -> plan -> start and follow the run -> pull -> verify -> publish
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from collect_agent import archive, npu
from collect_agent.acquire import described
from collect_agent.events import Event
from collect_agent.manifest import stages
from collect_agent.rundir import ARCHIVE
from collect_agent.tarstream import ArchiveError

from . import __version__, deploy, store, transfer
from .devices import Group, Verdict, groups, out_of_reach, verdicts
from .errors import (
    CollectError,
    Interrupted,
    NoFreeDevice,
    StorageError,
    TransferError,
    UnreachableError,
    from_agent,
)
from .inventory import Host
from .remote import Remote
from .request import Request, window
from .routes import template
from .routes.plan import Plan
from .run import ORPHAN_S, Run
from .survey import Facts, check, survey
from .wire import Sent, checked_manifest, log_lines, sent_files

OnEvent = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Result:
    """A published profile: its directory and what its manifest says."""

    directory: Path
    manifest: dict[str, Any]

    @property
    def archive(self) -> Path:
        return self.directory / ARCHIVE


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
    run_id = f"{datetime.now():%Y%m%d_%H%M%S}_{secrets.token_hex(3)}"
    place = store.place(request, run_id)
    plan = _plan(request, host)
    agent = deploy.build()
    log = _Log(on_event)
    with _told(log, host.name), store.incoming(place) as incoming, _opened(host, log) as remote:
        facts, judged = _prepare(request, host, remote, agent, log)
        run = Run(remote, facts, agent, document(request, run_id, plan, facts, judged, agent))
        log(stage="start", run=run_id, upload=not facts.agent_present)
        files = _follow(run, log)
        log.kept = run.directory
        log(stage="pull", bytes=0, of=sum(file.size for file in files))
        with transfer.pull(run, files, incoming, lambda done, of: log(stage="pull", bytes=done, of=of)) as stream:
            log(stage="verify")
            manifest = checked_manifest(_read(incoming / ARCHIVE), run.document)
            log(stage="publish")
            manifest["archive"] = next(dataclasses.asdict(file) for file in files if file.name == ARCHIVE)
            manifest["stages"] = stages(log.events)
            store.publish(place, manifest)
            log.kept = ""
            with contextlib.suppress(UnreachableError):
                stream.send(b"ok\n")  # lost, it costs the host some space and us nothing
    return Result(place.final, manifest)


def preview(request: Request, host: Host, on_event: OnEvent | None = None) -> Preview:
    """Everything up to the plan; nothing is uploaded or started."""
    plan = _plan(request, host)
    agent = deploy.build()
    log = _Log(on_event)
    with _told(log, host.name), _opened(host, log) as remote:
        facts, judged = _prepare(request, host, remote, agent, log)
    return Preview(facts, judged, groups(judged, request.wish)[0], plan, agent.name)


def document(
    request: Request, run_id: str, plan: Plan, facts: Facts, judged: Sequence[Verdict], agent: deploy.Agent
) -> dict[str, Any]:
    """What the agent gets on its standard input: see `collect_agent.start`."""
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
            "agent": agent.name,
            "cann": facts.cann_version,
            **facts.versions,
        },
        "wish": dataclasses.asdict(request.wish),
        "groups": [[described(device) for device in group] for group in npu.groups(judged, request.wish)],
        "refused": npu.reasons(judged, request.wish),
        "visible_devices": facts.visible_devices,
        "allow_shared": request.allow_shared,
        "wait_s": request.wait,
        "files": dict(plan.files),
        "argv": list(plan.argv),
        "env": dict(plan.env),
        "expected": dict(plan.expected),
        "deadline_s": request.timeout,
        "orphan_s": ORPHAN_S,
    }


def devices(host: Host, on_event: OnEvent | None = None) -> tuple[Verdict, ...]:
    """The verdict on every NPU of a host, in npu-smi's order."""
    log = _Log(on_event)
    with _told(log, host.name), _opened(host, log) as remote:
        log(stage="survey")
        return verdicts(survey(remote, host, deploy.build().name))


def deploy_agent(host: Host) -> str:
    """Put the agent on a host, unless it is there; its path on the host."""
    agent = deploy.build()
    log = _Log(None)
    with _told(log, host.name), _opened(host, log) as remote:
        log(stage="survey")
        facts = survey(remote, host, agent.name)
        check(facts)
        if not facts.agent_present:
            log(stage="deploy")
            with remote.stream(f"umask 027\n{deploy.upload_script(agent, facts.workdir)}") as stream:
                said = list(stream.lines(timeout=60))
                if stream.status() != 0:
                    raise StorageError(f"the agent could not be written: {b' '.join(said[-1:]).decode()}", "try again")
    return agent.path(facts.workdir)


class _Log:
    """Events on their way to the caller; the first of every stage is remembered for the manifest.

    `kept` names the finished run on the host, once there is one: it stays there until its result is published.
    """

    def __init__(self, on_event: OnEvent | None) -> None:
        self.events: list[Event] = []
        self.kept = ""
        self._on_event = on_event

    def __call__(self, **fields: Any) -> None:
        # Every time is this machine's: the host's clock may differ.
        event = {**fields, "time": round(time.time(), 6)}
        if self.stage != event["stage"]:
            self.events.append(event)
        if self._on_event:
            self._on_event(event)

    @property
    def stage(self) -> str:
        return self.events[-1]["stage"] if self.events else ""


@contextlib.contextmanager
def _told(log: _Log, host: str) -> Iterator[None]:
    """Add where it happened to whatever goes wrong; a Ctrl-C that nobody has answered yet becomes Interrupted."""
    try:
        yield
    except CollectError as error:
        error.stage = error.stage or log.stage
        error.host = error.host or host
        if log.kept:
            error.remedy = "; ".join(filter(None, (error.remedy, f"the result is kept on the host in {log.kept}")))
        raise
    except KeyboardInterrupt as error:
        state = f"the result is kept on the host in {log.kept}" if log.kept else "nothing was started on the host"
        raise Interrupted(f"interrupted: {state}", stage=log.stage, host=host) from error


@contextlib.contextmanager
def _opened(host: Host, log: _Log) -> Iterator[Remote]:
    log(stage="connect")
    with Remote(host) as remote:
        yield remote


def _plan(request: Request, host: Host) -> Plan:
    model = host.model(request.model)
    return template.plan(request, window(request, model), model, host)


def _prepare(
    request: Request, host: Host, remote: Remote, agent: deploy.Agent, log: _Log
) -> tuple[Facts, tuple[Verdict, ...]]:
    """What the host is like, and what may be used on it; NoFreeDevice when nobody wants to wait, or would in vain."""
    log(stage="survey")
    facts = survey(remote, host, agent.name)
    check(facts)
    preset = {} if facts.visible_devices is None else {"visible_devices": facts.visible_devices}
    log(stage="choose", **preset)
    judged = verdicts(facts, request.wish)
    try:
        groups(judged, request.wish)
    except NoFreeDevice as refused:
        if out_of_reach(judged, request.wish, facts.visible_devices):
            refused.remedy = "no waiting helps: name devices inside ASCEND_RT_VISIBLE_DEVICES, or unset it on the host"
        elif request.wait:
            return facts, judged
        raise
    return facts, judged


def _follow(run: Run, log: _Log) -> tuple[Sent, ...]:
    """Follow the run to its good end: the files it has to send. The error of a bad one carries the end of its log.

    Whatever else ends the following, the run is not left behind.
    """
    name = run.remote.host.name
    try:
        for event in run.events():
            if event["stage"] == "end":
                break
            log(**event)
    except KeyboardInterrupt as interrupt:
        raise Interrupted(f"interrupted: {_stopped(run)}") from interrupt
    except UnreachableError:
        raise  # it could not be stopped either; it ends by itself
    except BaseException:
        _stopped(run)
        raise
    if event.get("status") == "done":
        return sent_files(event.get("files"))
    error = from_agent(event["error"], stage=log.stage, host=name)
    error.log = log_lines(event["log"])
    raise error


def _stopped(run: Run) -> str:
    """Stop the run on the host; what has become of it, in words."""
    try:
        left = run.stop()
    except (CollectError, KeyboardInterrupt) as error:
        why = str(error) or "interrupted again while stopping it"
        return (
            f"run {run.id} may still be going on ({why}); it ends by itself when nobody follows it for "
            f"{ORPHAN_S / 60:g} minutes"
        )
    what = f"pids {left} could not be ended" if left else "nothing of it is left and its device is free"
    return f"run {run.id} was stopped on {run.remote.host.name}, {what}"


def _read(path: Path) -> Any:
    """Read the pulled archive to its end, as the host did, and hold it against its manifest; that manifest."""
    try:
        return archive.check_archive(str(path))["manifest"]
    except ArchiveError as error:
        raise TransferError(f"the pulled archive {error}", "run the command again") from error
