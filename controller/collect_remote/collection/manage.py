"""What is on a host, found and managed later, from any machine: list runs, go on with one, stop one, remove some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collect_agent.events import Event

from .. import agent_file
from ..cancel import Cancel
from ..errors import RunFailed, Trouble, UsageError, one_line
from ..inventory import Host
from ..results import growing, store
from ..results.profile import Profile
from ..ssh.remote import Remote
from ..ssh.tenacity import Tenacity
from ..survey.survey import survey
from .bring import bring
from .deploy import Deployed
from .run import Run, answer
from .session import OnEvent, session
from .wire import Listed, listed_runs

RECONNECT_S = 60.0
NO_RUN = Trouble(
    "no-such-run",
    UsageError,
    "there is no run '{run}' on {host}",
    "it was removed (`clean`, or its result was brought), it belongs to another host or `workdir`, or never began",
    "runs there: {known}",
)
NEVER_STARTED = Trouble(
    "never-started",
    UsageError,
    "run {run} was stopped before it started",
    "`stop` was faster than the start: nothing of it ran, and nothing ever will",
    "start another",
)

IN_A_JOB = Trouble(
    "part-of-a-job",
    UsageError,
    "run {run} is a part of a job on {count} hosts, and waits for the others",
    "the tool that started the job has gone, and it alone lets the runs of all hosts go on together",
    "`collect-remote stop {run} --host {host}` ends it; then start the job again",
)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What `clean` has done: runs that are gone, {run: why it was kept}, and the bytes that became free."""

    removed: tuple[str, ...]
    kept: Mapping[str, str]
    freed: int


def runs(host: Host, on_event: OnEvent | None = None) -> tuple[Listed, ...]:
    """Every run that is on the host, the oldest first."""
    with session(host, on_event) as (remote, log):
        log(stage="survey")
        return _listed(_deployed(remote, host))


def attach(
    host: Host,
    run_id: str,
    *,
    out: Path | None = None,
    reconnect_for: float = 600.0,
    on_event: OnEvent | None = None,
    cancel: Cancel | None = None,
) -> Profile:
    """Follow a run that is on the host to its end, and publish its result as `collect` would have.

    A KeyboardInterrupt, or `cancel`, stops it, unless it was started to go on alone, and becomes Interrupted.
    UsageError when there is no such run (`NO_RUN`), or its result is here already; otherwise the errors of `collect`.
    """
    with session(host, on_event, cancel) as (remote, log):
        log(stage="survey")
        deployed = _deployed(remote, host)
        found = _find(deployed, run_id)
        if found.host is None or found.model is None:
            raise NEVER_STARTED(run=run_id)
        if found.node is not None and found.state == "running":
            raise IN_A_JOB(run=run_id, count=found.node["count"], host=host.name)
        asked = {"run_id": found.run, "host": found.host, "model": found.model, "expected": found.expected}
        place = store.place(host.name, found.model, found.run, out)
        with growing.incoming(place):
            log(stage="follow", run=run_id)
            run = Run(deployed, found.run, reconnect_for)
            return bring(run, place, {**asked, "orphan_s": found.orphan_s}, log)


def stop(host: Host, run_id: str, on_event: OnEvent | None = None) -> Listed:
    """End a run and prove it; the run as it was before.

    UsageError when there is no such run, RunFailed when something of it could not be ended.
    """
    with session(host, on_event) as (remote, log):
        log(stage="survey")
        deployed = _deployed(remote, host)
        found = _find(deployed, run_id)
        log(stage="stop", run=run_id)
        left = Run(deployed, run_id, RECONNECT_S).stop()
        if left:
            raise RunFailed(f"pids {left} of run {run_id} could not be ended", "ask an administrator of the host")
        return found


def clean(
    host: Host, run_ids: Sequence[str] = (), *, results: bool = False, on_event: OnEvent | None = None
) -> Cleaned:
    """Remove runs that have ended: those named, or all that have no result (`results`: those that have one too).

    A run that is going on is never removed. UsageError when there is no such run.
    """
    with session(host, on_event) as (remote, log):
        log(stage="survey")
        deployed = _deployed(remote, host)
        for run_id in run_ids:
            _find(deployed, run_id)
        log(stage="clean")
        more = ["--results"] if results else []
        done = _ask(deployed, "clean", deployed.facts.workdir, *more, *run_ids)
        return Cleaned(tuple(done["removed"]), {one_line(run): why for run, why in done["kept"].items()}, done["freed"])


def _deployed(remote: Remote, host: Host) -> Deployed:
    agent = agent_file.build().name
    return Deployed(remote, Tenacity(remote).persist(lambda: survey(remote, host, agent, remote.prepare)))


def _find(deployed: Deployed, run_id: str) -> Listed:
    there = {listed.run: listed for listed in _listed(deployed)}
    if run_id not in there:
        known = ", ".join(there) or "none"
        raise NO_RUN(run=one_line(run_id), host=deployed.remote.host.name, known=known)
    return there[run_id]


def _listed(deployed: Deployed) -> tuple[Listed, ...]:
    return listed_runs(_ask(deployed, "runs", deployed.facts.workdir)["runs"])


def _ask(deployed: Deployed, command: str, *arguments: str) -> Event:
    """The one answer of a command of the agent, which may be given twice."""
    return Tenacity(deployed.remote).persist(lambda: _answer(deployed, command, *arguments))


def _answer(deployed: Deployed, command: str, *arguments: str) -> Event:
    with deployed.stream(command, *arguments) as stream:
        return answer(stream, command)
