"""Have a job that runs already record itself: change the file it looks at, wait for its logs, put the file back.

The job is not ours: nothing is started or ended, and its devices are its own. Its steps are timed by its log.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from typing import Any, Dict, Iterator, Mapping, Tuple

from .. import events, troubles
from ..failure import Failure
from ..run import family, putback
from ..run.rundir import RunDir
from . import jobs

FILE = "profiler_config.json"
TICK_S = 0.2


def attend(run: RunDir) -> int:
    """Do what `attend.json` says; 0 when every rank that the plan expects has recorded its window."""
    family.die_with_parent()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the file is put back before we end
    voice = events.inherited_voice()
    with open(os.path.join(run.path, "attend.json"), encoding="utf-8") as file:
        asked: Dict[str, Any] = json.load(file)
    expected = run.read_plan()["expected"]
    ((phase, steps),) = expected["steps"].items()
    attendance = Attendance(run, asked["directory"], expected["ranks"], asked["begin_s"])
    try:
        voice.say("load")
        attendance.find()
        voice.gate("loaded")
        config = dict(asked["config"], prof_dir=os.path.join(run.profile, phase))
        with _alone(asked["directory"]), attendance.asked(config):
            attendance.wait("begun")
            for rank in attendance.ranks:
                voice.say_of(rank, "warmup", **attendance.before(phase, rank))
            attendance.wait("ended")
        for rank in attendance.ranks:
            voice.say_of(rank, "profile", **attendance.within(phase, steps, rank))
        voice.gate("recorded", window=phase)
    except Failure as failure:
        voice.say("error", **failure.to_json())
        return 1
    return 0


@contextlib.contextmanager
def _alone(directory: str) -> Iterator[None]:
    """Nobody else asks the job meanwhile, or would put back what was ours."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        _lock(descriptor, directory)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise troubles.JOB_BUSY(directory=directory) from None
    except OSError:
        return  # a file system without locks


class Attendance:
    """The ranks to profile of the job that looks at `directory`, from the change of its file on."""

    def __init__(self, run: RunDir, directory: str, wanted: "list[int]", begin_s: float) -> None:
        self._run, self._directory, self._wanted, self._begin_s = run, directory, wanted, begin_s
        self._since = 0.0
        self.ranks: Dict[int, jobs.Rank] = {}
        self._all: Dict[int, jobs.Rank] = {}

    def find(self) -> None:
        """Find the job, and wait until it has made so many steps that they can be timed."""
        self._all = jobs.ranks(self._directory)
        if not self._all:
            raise troubles.JOB_NOT_THERE(directory=self._directory)
        lacking = [rank for rank in self._wanted if rank not in self._all]
        if lacking:
            raise troubles.NO_SUCH_RANK(rank=lacking[0], ranks=", ".join(map(str, sorted(self._all))))
        self.ranks = {rank: self._all[rank] for rank in self._wanted}
        self.wait("timed")

    @contextlib.contextmanager
    def asked(self, config: Mapping[str, Any]) -> Iterator[None]:
        """The file says `config` while the body runs; then it is what it was, with its time: no rank reads it anew."""
        path = os.path.join(self._directory, FILE)
        if len(self._all) > len(self.ranks):
            config = dict(config, is_rank=True, rank_list=sorted(self.ranks))
        self._since = time.time() - 1.0  # logs have milliseconds, and another process's clock

        def asking(before: bytes, mtime: float) -> Tuple[bytes, float]:
            # Whole seconds count, later than the file's and than the start of the job.
            later = int(max(time.time(), mtime)) + 1
            return json.dumps({**_known(before), **config}, indent=4).encode(), later

        try:
            putback.change(self._run, path, asking)
        except OSError as error:
            raise troubles.JOB_NOT_ASKED(path=path, why=error.strerror) from error
        try:
            yield
        finally:
            putback.put_back(self._run)

    def wait(self, what: str) -> None:
        """Until every rank has logged it. Failure when one has ended before, or nothing begins in time."""
        until = time.monotonic() + self._begin_s
        since = 0.0 if what == "timed" else self._since
        while True:
            left = [rank for rank in self.ranks.values() if rank.last(what, since) is None]
            if not left:
                return
            ended = [rank for rank in left if not rank.alive]
            if ended and ended[0].last(what, since) is None:
                raise troubles.JOB_ENDED(rank=ended[0].number, pid=ended[0].pid)
            if what != "ended" and time.monotonic() > until:
                heard = what == "begun" and jobs.noticed(self._directory, self._since)
                raise (troubles.JOB_NOT_STEPPING if heard else troubles.JOB_DEAF)(
                    rank=left[0].number, pid=left[0].pid, seconds=self._begin_s, directory=self._directory
                )
            time.sleep(TICK_S)

    def before(self, phase: str, rank: int) -> Dict[str, Any]:
        """The steps before the window, as one: how long one of them took, on average."""
        return self._mean(phase, rank, "timed", "begun")

    def within(self, phase: str, steps: int, rank: int) -> Dict[str, Any]:
        """The steps of the window the same way, the profiler's own warm-up among them."""
        return dict(self._mean(phase, rank, "begun", "ended"), step=steps, of=steps, recompiles=None)

    def _mean(self, phase: str, rank: int, first: str, second: str) -> Dict[str, Any]:
        begin = self.ranks[rank].last(first, 0.0 if first == "timed" else self._since)
        end = self.ranks[rank].last(second, self._since)
        assert begin and end  # noqa: S101 - they were waited for
        count = max(1, end.step - begin.step)
        seconds = round(max(0.0, end.time - begin.time) / count, 6)
        return {"window": phase, "kind": phase, "step": end.step, "of": end.step, "seconds": seconds}


def _known(text: bytes) -> Dict[str, Any]:
    """What the file says already; nothing, where it cannot be read."""
    try:
        said = json.loads(text.decode())
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
