"""Running the cells of a sweep: what the schedule says is begun, what comes back is written down, until all is done.

One thread decides and writes; the cells run in others, or wherever an engine takes them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import queue
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from collect_agent.events import Event

from ..cancel import Cancel
from ..collection.pipeline import new_run_id
from ..errors import Interrupted, RunFailed, Trouble
from ..inventory import Host
from . import clock, schedule
from .cells import Outcome, Progress
from .engines import Engine
from .journal import Journal
from .schedule import Limits
from .work import Task, placed, told

TICK_S = 0.2  # for whoever watches
LEAVE_S = 60.0  # for cells that were asked to leave
QUIET_S = 1.0  # ... and have nothing on their host, as far as we have heard
OVER_TIME = Trouble(
    "cell-timeout",
    RunFailed,
    "not done after {seconds:g} s, and given up",
    "`--cell-timeout` is over, whatever the cell was doing: the host is slow or hangs, or its devices were not free",
    "see with `collect-remote runs --host HOST` what is still there, or give cells more time",
)
QUIET = ("connect", "survey", "choose")  # stages in which there is nothing of ours on the host


class Watch(Protocol):
    """Whoever looks at a sweep, in the thread that conducts it."""

    def began(self, one: Progress, /) -> None: ...
    def event(self, key: str, event: Event, /) -> None: ...
    def ended(self, one: Progress, again_in: float | None, /) -> None: ...
    def tick(self, now: float, /) -> None: ...
    def close(self) -> None: ...


@dataclass(slots=True)
class _Attempt:
    """One that is going on."""

    future: Future[Outcome]
    cancel: Cancel
    until: float  # when it has had its time
    stage: str = ""
    over_time: bool = False


class Conductor:
    """Drives the cells of a journal. `hosts`: of the inventory, by name."""

    def __init__(
        self,
        journal: Journal,
        hosts: Mapping[str, Host],
        limits: Limits,
        watch: Watch,
        engine: Engine,
    ) -> None:
        self._journal, self._hosts, self._limits, self._watch = journal, hosts, limits, watch
        self._engine = engine
        self._profiles = (journal.directory / "profiles").absolute()
        self._cells = {one.cell.key: one for one in journal.cells()}
        self._running: dict[str, _Attempt] = {}
        self._renewed: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._look_at = 0.0  # when the schedule has to be asked again
        self._due: float | None = None  # when a cell that waits may be tried again

    def run(self, cancel: Cancel | None = None) -> list[Progress]:
        """Every cell, when nothing can be done any more.

        Interrupted by KeyboardInterrupt or `cancel`: cells that were running have stopped, and the journal says where
        to go on. StorageError when it cannot be written.
        """
        try:
            for one in self._every():
                if one.state == "running":  # when its tool ended
                    self._begin(one)
            while self._plan():
                self._next(cancel)
            return self._every()
        except KeyboardInterrupt as interrupt:
            left = self._leave()
            raise Interrupted(
                f"interrupted: {left}; what is done is kept",
                f"`collect-remote sweep --resume --dir {shlex.quote(str(self._journal.directory))}` goes on",
            ) from interrupt
        except BaseException:
            self._leave()
            raise

    def _every(self) -> list[Progress]:
        return list(self._cells.values())

    def _plan(self) -> bool:
        """Begin what can be begun; whether anything is left to wait for."""
        now = clock.now()
        if now >= self._look_at:
            for one in schedule.startable(self._every(), self._limits, now):
                self._begin(one)
            self._due = schedule.next_due(self._every(), self._limits, now)
            self._look_at = float("inf") if self._due is None else self._due
        return bool(self._running) or self._due is not None

    def _next(self, cancel: Cancel | None) -> None:
        """Whatever comes first: news of a cell, the time of one, somebody who wants to leave."""
        self._hear_out(max(0.01, min(TICK_S, self._look_at - clock.now())))
        if cancel is not None:
            cancel.sleep(0)
        self._look_at_the_clock()
        self._watch.tick(clock.now())

    def _hear_out(self, seconds: float) -> None:
        with contextlib.suppress(queue.Empty):
            self._inbox.get(timeout=seconds)()
            for _ in range(self._inbox.qsize()):  # a host that says more and more must not keep us
                self._inbox.get_nowait()()

    def _begin(self, one: Progress) -> None:
        """Under the id of the attempt before, where that may have left a run."""
        key, host = one.cell.key, self._hosts[one.cell.host]
        earlier = one.run_id if one.state == "running" or (one.outcome and one.outcome.left) else None
        run_id = earlier or new_run_id()
        if one.state != "running":
            self._journal.begin(key, run_id)
            one = dataclasses.replace(
                one, state="running", attempts=one.attempts + 1, run_id=run_id, began=clock.now(), ended=None
            )
        self._cells[key] = one
        self._watch.began(one)
        request, cancel = placed(one.cell.request, self._profiles, run_id), Cancel()
        task = Task(host, request, run_id, again=earlier is not None)
        future = self._engine.submit(task, functools.partial(self._hear, key), cancel)
        until = clock.now() + self._limits.timeout if self._limits.timeout else float("inf")
        self._running[key] = _Attempt(future, cancel, until)
        future.add_done_callback(lambda done: self._inbox.put(lambda: self._ended(key, done)))

    def _hear(self, key: str, event: Event) -> None:
        """In the cell's own thread."""
        self._inbox.put(lambda: self._heard(key, event))

    def _heard(self, key: str, event: Event) -> None:
        if key in self._running:
            self._running[key].stage = event["stage"]
            self._watch.event(key, event)

    def _ended(self, key: str, future: Future[Outcome]) -> None:
        attempt = self._running.get(key)
        if attempt is None or attempt.future is not future:
            return  # given up before
        outcome = future.result()
        late = attempt.over_time and outcome.state != "valid"
        self._settle(key, self._over_time(key, outcome.left) if late else outcome)

    def _settle(self, key: str, outcome: Outcome) -> None:
        """Write down how an attempt ended, and what that means for this cell and for others."""
        del self._running[key]
        self._look_at = 0.0
        one, now = self._cells[key], clock.now()
        if outcome.state == "lost" and one.outcome and one.outcome.state == "lost":
            outcome = dataclasses.replace(outcome, state="failed")  # whoever stops its runs does it again
        self._failures[key] += outcome.state == "failed"
        state, due = schedule.after(outcome, self._failures[key], self._limits, now)
        self._journal.end(key, outcome, state, due)
        one = self._cells[key] = dataclasses.replace(one, state=state, due=due, ended=now, outcome=outcome)
        self._watch.ended(one, due - now if state == "pending" and due else None)
        self._give_up(schedule.doomed(self._every(), one), one)
        if state == "valid":
            self._renew([other for other in schedule.stale(self._every(), one) if other.cell.key not in self._renewed])

    def _give_up(self, cells: Sequence[Progress], failed: Progress) -> None:
        outcomes = {one.cell.key: schedule.given_up(one, failed) for one in cells}
        self._journal.give_up(outcomes)
        for one in cells:
            told = self._cells[one.cell.key] = dataclasses.replace(
                one, state="failed", began=None, ended=None, outcome=outcomes[one.cell.key]
            )
            self._watch.ended(told, None)

    def _renew(self, cells: Sequence[Progress]) -> None:
        """Once each: a host that never has the same releases has no results that go together."""
        self._journal.again(one.cell.key for one in cells)
        for one in cells:
            self._renewed.add(one.cell.key)
            self._cells[one.cell.key] = dataclasses.replace(one, state="pending", due=0.0)

    def _look_at_the_clock(self) -> None:
        now = clock.now()
        for key, attempt in list(self._running.items()):
            if now > attempt.until and not attempt.over_time:
                attempt.over_time = True
                attempt.cancel.set()
            elif now > attempt.until + LEAVE_S:
                self._settle(key, self._over_time(key, left=True))

    def _over_time(self, key: str, left: bool) -> Outcome:
        error = OVER_TIME(seconds=self._limits.timeout)
        error.stage = self._running[key].stage
        return Outcome("failed", told(error, self._cells[key].cell.host), left=left)

    def _leave(self) -> str:
        """Have what is running stop, and wait for it; what has become of it, in words."""
        for attempt in self._running.values():
            attempt.cancel.set()
        self._engine.stop()
        began, asked = clock.now(), len(self._running)
        with contextlib.suppress(KeyboardInterrupt):
            while (self._running if clock.now() < began + QUIET_S else self._busy()) and clock.now() < began + LEAVE_S:
                with contextlib.suppress(Exception):  # the journal's, or a watch's: there is a reason already
                    self._hear_out(TICK_S)
                    self._watch.tick(clock.now())
        left = self._busy()
        what = "1 cell was" if asked == 1 else f"{asked} cells were"
        rest = f", and {left} of them may still be" if left else f" and {'was' if asked == 1 else 'were'} stopped"
        return f"{what} running{rest if asked else ''}"

    def _busy(self) -> int:
        """Cells that may have something on their host."""
        return sum(attempt.stage not in QUIET for attempt in self._running.values())
