"""The supervisor of one run: outlives the SSH session, holds the device, bounds the time, cleans up, tells the end.

    lease -> worker (import, load, precheck, warm-up, profile, parse) -> harvest -> validate -> pack -> check

Whatever happens, the journal ends with one `end` event and no process of the run is left.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import time
import traceback
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, Optional

from .. import events, remedies, troubles
from ..boxes import borrow, ownership
from ..ending import how_ended
from ..failure import Failure
from ..npu import acquire, lease, presence
from . import family, process, program, putback, ranks, remains, room, runlog, together
from .rundir import RunDir

TICK_S = 0.5
GRACE_S = 5.0
_WATCHING = (signal.SIGALRM, signal.SIGTERM)


def supervise(run: RunDir) -> int:
    """Run the whole pipeline of `run`; returns the exit status of the supervisor (0 good, 1 not)."""
    family.adopt_orphans()
    journal = events.Journal(run.events)
    plan = run.read_plan()
    loan = borrow.Loan(run, plan["container"]["name"]) if plan["container"] and plan["leased"] else None
    end: Dict[str, Any]
    try:
        with _watched(run, plan, loan) as limit:
            end = {"status": "done", **_pipeline(run, plan, journal, limit, loan)}
    except Failure as failure:
        end = {"status": "failed", "error": (room.lacking_behind(failure, run) or failure).to_json()}
    except OSError as error:
        _into_the_log()
        end = {"status": "failed", "error": _os_failure(run, error).to_json()}
    except Exception as error:  # noqa: BLE001 - the end event must be written whatever happened
        _into_the_log()
        end = {
            "status": "failed",
            "error": Failure("RunFailed", "the agent failed: {!r}".format(error)).to_json(),
        }
    left = process.end(run.id, grace_s=GRACE_S)
    putback.put_back(run)
    if left:
        end["left"] = left
    if loan:
        loan.release()
    with contextlib.suppress(OSError):
        os.unlink(run.reserve)
    with contextlib.suppress(OSError):
        runlog.restore(run)
        if end["status"] == "failed" and "files" not in end:
            runlog.cut(run)
            runlog.tidy(run)
    if end["status"] == "failed":
        remains.trim(run)
    ownership.give_back(run)
    with contextlib.suppress(OSError):
        journal.write(stage="end", directory=run.path, log=_tail(run.log), **end)
        journal.close()
    return 0 if end["status"] == "done" else 1


def _pipeline(
    run: RunDir, plan: Dict[str, Any], journal: events.Journal, limit: Limit, loan: Optional[borrow.Loan]
) -> Dict[str, Any]:
    """`loan`: in a container, where the host has the leases and looks at the devices."""
    if not plan["leased"]:
        held = lease.Leases([], [])  # the program runs already, on devices of its own
    else:
        held = loan.acquire(journal.write) if loan else acquire.acquire(plan, run.id, journal.write)
    look = loan.look if loan else functools.partial(presence.look, run_id=run.id)
    journal.write(stage="lease", devices=held.devices)
    meetings = together.Meetings(run, plan["node"], journal.write)
    moments: List[presence.Moment] = []
    try:
        port = meetings.begin()
        limit.start(plan["deadline_s"])
        started = time.time()
        worker = program.start(run, plan, held, port)
        # The worker has a model to load: what comes after it is imported meanwhile.
        with undisturbed():
            from ..output import harvest
            from . import result

        def at_gate(when: str) -> None:
            if plan["leased"]:  # what is on the devices of others is theirs
                moments.append(look(when))
            meetings.wait()

        _follow_worker(run, plan, worker, journal, held.devices, at_gate)
        harvest.settle(run, plan, journal.write)
    finally:
        process.end(run.id, grace_s=GRACE_S)  # nothing of the run may be on a device whose lease is given back
        held.release()

    recorded = result.Recorded(
        environment=program.environment(run, plan, held),
        since=started,
        seen=presence.tell(moments, held.devices),
        ranks=worker.ranks.others,
    )
    return result.make(run, plan, journal, recorded)


def _follow_worker(
    run: RunDir,
    plan: Dict[str, Any],
    worker: program.Program,
    journal: events.Journal,
    devices: List[lease.Device],
    look: Callable[[str], None],
) -> None:
    """Relay the worker's events until it has ended; Failure when it did not end well.

    At its gates, with their names, `look` is called. One that dies in its parser has recorded all that it had to.
    """
    from ..output import harvest

    error: Optional[Dict[str, str]] = None
    with contextlib.closing(worker):
        for event in program.reports(worker):
            if event["stage"] == "error":
                error = error or {key: event[key] for key in ("kind", "message", "remedy", "entry")}
            else:
                _prove(event, devices)
                journal.write(**event)
                if event["stage"] in events.GATES:
                    look(event["stage"])
                    worker.let_go_on()
    status = worker.popen.wait()
    if error:
        raise Failure(**error)
    if status and harvest.died_while_parsing(run, plan, journal.events[-1]):
        look("recorded")
        journal.write(stage="recorded", died=_death(status, run.log))
    elif status:
        died = troubles.DIED(how=_death(status, run.log), log=run.log)
        known = remedies.find(died.message)
        if known:
            died.remedy, died.entry = known
        died.remedy += remains.kept(run)
        raise died


def _prove(event: events.Event, devices: List[lease.Device]) -> None:
    """The program must see the devices it was given and no others: it could be on somebody else's.

    A framework may show each of its processes but one of them.
    """
    if event["stage"] == "import" and "device" in event and not 0 < event["device"]["count"] <= len(devices):
        raise troubles.DEVICE_COUNT(given=len(devices), counted=event["device"]["count"])


class Limit:
    """The run's time limit; it counts from the moment the run has its device."""

    def __init__(self) -> None:
        self._end = float("inf")

    def start(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._end


class Silence:
    """How long nobody has followed. The host's clock may be set while we run: only that the time of `path` changes
    counts, and when we saw it."""

    def __init__(self, path: str) -> None:
        self._path, self._seen, self._since = path, self._mtime(path), time.monotonic()

    @property
    def seconds(self) -> float:
        seen = self._mtime(self._path)
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        return time.monotonic() - self._since

    @staticmethod
    def _mtime(path: str) -> Optional[int]:
        try:
            return os.stat(path).st_mtime_ns
        except OSError:
            return None


@contextlib.contextmanager
def _watched(run: RunDir, plan: Dict[str, Any], loan: Optional[borrow.Loan]) -> Iterator[Limit]:
    """Raise a Failure in the body when its time is over, nobody follows, its directory is gone, or on SIGTERM.

    And when the host does not keep the devices that are on `loan` any more.
    """
    limit, silence, relief = Limit(), Silence(run.followed), runlog.Relief(1)

    def tick(_number: int, _frame: Optional[FrameType]) -> None:
        if limit.is_over:
            raise troubles.LATE(seconds=plan["deadline_s"], log=run.log)
        if not os.path.isdir(run.path):
            raise remains.removed(run)
        process.sign_of_life(run.pid)  # for those who cannot see us
        relief()
        if os.path.exists(run.stop):
            raise troubles.STOPPED()
        if loan:
            loan.check()
        if plan["orphan_s"] and silence.seconds > plan["orphan_s"]:
            raise troubles.ALONE(seconds=plan["orphan_s"])

    def terminate(_number: int, _frame: Optional[FrameType]) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise troubles.STOPPED()

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, terminate)
    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        yield limit
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """What `_watched` does waits until the body is over.

    It must not meet an import: what it imports itself, in the same thread, takes the lock of the outer import along
    (KeyError of a thread's number; CPython #106176), and what it raises leaves half a module. For a process with one
    thread: another would be given the signal.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHING)


def _death(status: int, log: str) -> str:
    """How the worker ended, with the last line of the log that names a cause."""
    lines = [line for line in _tail(log) if line.strip()]
    cause = remedies.cann_error(lines) or ranks.death(lines) or (lines[-1] if lines else "")
    return "the profiling process {}{}".format(how_ended(status), cause and ": " + cause)


def _into_the_log() -> None:
    """The traceback of what is being handled, where the log takes it: its disk may be full."""
    with contextlib.suppress(OSError):
        traceback.print_exc()


def _os_failure(run: RunDir, error: OSError) -> Failure:
    where = error.filename or run.path
    if not os.path.isdir(run.path):
        return remains.removed(run)
    if isinstance(error, FileNotFoundError):
        return troubles.FILE_GONE(path=where, run=run.path)
    failure = troubles.NOT_WRITTEN(why=error.strerror or error, path=where)
    failure.remedy += remains.kept(run)
    return failure


def _tail(path: str, lines: int = 30, size: int = 16384) -> List[str]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read().decode("utf-8", "replace").splitlines()[-lines:]
    except OSError:
        return []
