"""The life of one profiler of the program: is it wanted, what has it written, and where."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import shutil
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Set

from . import device, places, receipts
from .handlers import Asked
from .request import Request

NONE, WARMUP, RECORD, SAVE = "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"
Original = Callable[[], Any]
_numbers = itertools.count()
_open: Set[str] = set()  # recordings of this process
_closed: Set[str] = set()  # phases that it has recorded, whole: there is one profile of each
_begun: Dict[str, List[str]] = {}  # by phase: what came of recordings that were not whole


class WithoutComplaint(io.TextIOBase):
    """A stream, without what torch_npu says when it is stopped in the middle of a window."""

    def __init__(self, behind: Any) -> None:
        self.behind = behind

    def write(self, text: str) -> int:
        if self.behind is not None and "Stop profiler while current state" not in text:
            self.behind.write(text)
        return len(text)

    def flush(self) -> None:
        if self.behind is not None:
            self.behind.flush()


class Recording:
    """Goes with a profiler from its construction on. States are those of torch_npu's schedule."""

    def __init__(
        self,
        request: Request,
        phase: Optional[str],
        asked: Asked,
        schedule: Optional[Callable[[int], Any]],
        place: Callable[[str, Optional[str]], Any],
    ) -> None:
        self.id = "{}.{}".format(os.getpid(), next(_numbers))
        self.request, self.phase, self.asked, self.schedule = request, phase, asked, schedule
        self.place = place  # says where torch_npu writes next
        self.steps, self.thrown_away = 0, False
        self.compiled_before = 0  # the window
        self.made_by, self.started_by = os.getpid(), 0
        self.state = NONE
        self.begin_step()
        self.about: Dict[str, Any] = {}
        self.look()

    def look(self) -> bool:
        """Find the rank, which may be known later than the profiler; whether it has changed."""
        before = getattr(self, "rank", None)
        self.rank, self.world = places.rank_and_world()
        self.wanted = self.phase is not None and self.phase not in _closed and self.request.of_rank(self.rank)
        return self.rank != before

    def tell(self) -> None:
        receipts.say(
            "profiler", id=self.id, phase=self.phase, rank=self.rank, world=self.world, wanted=self.wanted, **self.about
        )

    @property
    def started(self) -> bool:
        """By this process: a fork has what its parent records, and must not end it."""
        return self.started_by == os.getpid()

    def action(self, step: int) -> str:
        """The state that a step is in."""
        return RECORD if self.schedule is None else str(getattr(self.schedule(step), "name", NONE))

    # --- around what torch_npu does: `original` is its own method ---

    def start(self, prof: Any, original: Original) -> None:
        if self.look() or self.made_by != os.getpid():
            self.tell()
        if not self.wanted:
            return
        self.state, self.started_by = self.action(self.steps), os.getpid()
        if self.state != NONE:
            self.prepare()
        original()
        if self.state != NONE:
            self.opened(prof)
        self.begin_step()

    def step(self, prof: Any, original: Original) -> None:
        if not self.wanted:
            self.steps += 1
            prof.step_num = self.steps  # some programs go on until it has counted so far
        elif self.started:
            receipts.say(
                "step", id=self.id, n=self.steps, state=self.state,
                seconds=round(time.perf_counter() - self.since, 6), recompiles=device.compilations() - self.compiled,
            )  # fmt: skip
            self.go_on(prof, original)
            self.begin_step()

    def go_on(self, prof: Any, original: Original) -> None:
        """From the state of this step to that of the next, which may close what is open, begin something, or both."""
        state, following = self.state, self.action(self.steps + 1)
        closes = (state, following) in ((WARMUP, NONE), (RECORD, NONE), (RECORD, WARMUP)) or state == SAVE
        begins = following != NONE and state in (NONE, SAVE)
        directory = written(prof)
        if begins:
            self.prepare()
        with self.named() if closes else contextlib.nullcontext():
            original()
        self.state, self.steps = following, self.steps + 1
        if closes:
            self.closed(directory, "schedule", state == SAVE)
        if begins:
            self.opened(prof)

    def stop(self, prof: Any, original: Original) -> None:
        if not self.wanted or not self.started:
            return  # torch_npu would finish, or delete, what another one has recorded
        state, self.started_by = self.state, 0
        with self.named():
            original()
        if state != NONE:
            self.closed(written(prof), "stop", state == RECORD and self.schedule is None)

    def prepare(self) -> None:
        """Right before something is recorded. torch_npu remembers one place in a process: that of the last handler."""
        device.before_recording(self.request, self.id)
        self.place(os.path.join(self.request.output, str(self.phase)), self.asked.worker)

    def named(self) -> Any:
        return places.rank_named(self.rank, self.world)

    def begin_step(self) -> None:
        self.since, self.compiled = time.perf_counter(), device.compilations()

    def opened(self, prof: Any) -> None:
        _open.add(self.id)
        self.compiled_before = device.compilations()
        receipts.say("opened", id=self.id, phase=self.phase, rank=self.rank, directory=written(prof))

    def closed(self, directory: Optional[str], how: str, complete: bool) -> None:
        _open.discard(self.id)
        if self.thrown_away:
            return
        there = os.listdir(directory) if directory and os.path.isdir(directory) else None
        # torch_npu swallows what goes wrong when it stops; the last thing that it does then is this file.
        finished = any(name.startswith("profiler_info") for name in there or ())
        self.settle(directory, complete and finished)
        receipts.say(
            "closed",
            id=self.id,
            directory=None if there is None else directory,
            how=how,
            complete=complete and finished,
            recompiles=device.compilations() - self.compiled_before,
        )

    def settle(self, directory: Optional[str], whole: bool) -> None:
        """A whole recording is the profile of its phase; what was begun before would be taken for another."""
        begun = _begun.setdefault(str(self.phase), [])
        if whole:
            _closed.add(str(self.phase))
            for earlier in begun:
                shutil.rmtree(earlier, ignore_errors=True)
            begun.clear()
        elif directory:
            begun.append(directory)

    # --- for windows of ours ---

    def throw_away(self, prof: Any, why: str) -> None:
        """Stop, and leave nothing of it; what torch_npu would say of the schedule then is not the program's fault."""
        self.thrown_away = True
        with contextlib.redirect_stdout(WithoutComplaint(sys.stdout)):
            prof.stop()
        directory = written(prof)
        if directory:
            shutil.rmtree(directory, ignore_errors=True)
        receipts.say("discarded", id=self.id, why=why)


def before_window(request: Request, phase: Optional[str]) -> bool:
    """Whether nothing is recorded now, and that phase (None: any of those wanted) is still to come."""
    coming = set(request.windows) if phase is None else {phase}
    return not _open and not coming <= _closed


def written(prof: Any) -> Optional[str]:
    """The directory of the recording that a profiler has open."""
    return getattr(getattr(prof, "prof_if", None), "prof_path", None) or None
