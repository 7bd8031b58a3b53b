"""Profiles of a program that has no profiler: calls of a function or method are the steps."""

from __future__ import annotations

import atexit
import time
from typing import Any, Dict, NamedTuple, Optional

from . import arguments, device, receipts
from .handlers import MARK, Asked, marked
from .request import Call, Request
from .windows import INTERRUPTED, NEXT, OPEN, Window, kind_of

ATTEMPTS = 5


class Wanted:
    """A window that is not recorded yet: calls seen before it, attempts that came to nothing."""

    def __init__(self, window: Window) -> None:
        self.window, self.seen, self.attempts = window, 0, 0


class Begun(NamedTuple):
    """A call that may be a step: of which kind, whether in a window, and since when (time.perf_counter)."""

    kind: str
    recorded: bool
    since: float


class Steps:
    """One of a process. One profiler at a time; a call inside another, or in another thread meanwhile, is no step."""

    def __init__(self, request: Request) -> None:
        windows = request.windows if request.step_on else {}
        self.wanted = [Wanted(Window(phase, numbers)) for phase, numbers in windows.items() if numbers]
        self.made: Dict[str, int] = {}  # calls by kind, while anything was wanted
        self.busy = self.heard = False
        self.open: Optional[Wanted] = None
        self.latest: Optional[Wanted] = None  # that was open
        self.prof: Any = None
        self.position = 0
        self.last: Optional[float] = None  # when a call ended (time.perf_counter)
        atexit.register(self.came_too_late)

    def begun(self, call: Call, args: Any, kwargs: Dict[str, Any]) -> Optional[Begun]:
        """A call begins; None when it is no step."""
        if self.busy or not self.wanted or device.capturing():
            return None
        kind = call.phase or kind_of(args, kwargs)
        self.made[kind] = self.made.get(kind, 0) + 1
        recorded = self.before(kind)
        self.busy = True
        return Begun(kind, recorded, time.perf_counter())

    def ended(self, call: Call, begun: Optional[Begun], raised: bool) -> None:
        """It has returned, or raised."""
        if begun is None:
            return
        self.busy = False
        if not begun.recorded:
            self.warmed_up(begun, call.call)
        elif raised:
            self.interrupted("a call of {} raised".format(call.call))
        else:
            self.after()
        self.last = time.perf_counter()

    # --- before a call ---

    def before(self, kind: str) -> bool:
        """Open a window, or go on to its next step; whether the call is one of its steps."""
        if self.open:
            meaning = self.open.window.decide(kind, self.open.seen, self.position)
            if meaning == NEXT:
                if self.open.window.apart and self.position == self.open.window.warmup:
                    self.next()
                return True
            if meaning == INTERRUPTED:
                self.interrupted("a call of {} came in the window of {}".format(kind, self.open.window.phase))
        for one in list(self.wanted):
            if one is not self.open and one.window.decide(kind, one.seen, None) == OPEN:
                return self.begin(one)
        return False

    def begin(self, one: Wanted) -> bool:
        """Open the recorder of a window right before its first call; False when this rank is not wanted."""
        if self.open:
            self.drop("the window of {} can be recorded first".format(one.window.phase))
        import torch_npu.profiler as profiler

        schedule = arguments.schedule(profiler, one.window.schedule)
        device.synchronize()
        self.prof = profiler.profile(schedule=schedule, on_trace_ready=marked(Asked(phase=one.window.phase)))
        if not self.heard:
            self.heard = True
            atexit.register(self.program_ends)  # after what stops all profilers, and so run before it
        self.prof.start()
        if not getattr(self.prof, MARK).wanted:
            self.wanted.clear()
            return False
        self.open, self.latest, self.position = one, one, 0
        return True

    def next(self) -> None:
        """Close the step, when all that was launched in it has ended."""
        device.synchronize()
        self.prof.step()

    # --- after a call ---

    def after(self) -> None:
        self.position += 1
        if self.open is None:
            return
        window = self.open.window
        if not (window.apart and self.position == window.warmup):
            self.next()
        if self.position == len(window.kinds):
            self.prof.stop()
            self.wanted.remove(self.open)
            self.open = self.prof = None

    def warmed_up(self, begun: Begun, name: str) -> None:
        waiting = [one for one in self.wanted if one is not self.open and one.window.counts(begun.kind)]
        if waiting and not self.recording():
            device.synchronize()
        now = time.perf_counter()
        for one in waiting:
            one.seen += 1
            if not self.recording():
                # A step is what it will be in the window: see `Window.apart`.
                since = begun.since if one.window.apart or self.last is None else self.last
                seconds = round(now - since, 6)
                receipts.say("warmup", phase=one.window.phase, kind=begun.kind, seconds=seconds, call=name)

    def recording(self) -> bool:
        return self.open is not None and self.open.window.recording(self.position)

    # --- what comes to nothing ---

    def interrupted(self, why: str) -> None:
        one = self.open
        self.drop(why)
        if one:
            one.attempts += 1
            if one.attempts == ATTEMPTS:
                self.wanted.remove(one)
                receipts.say("trouble", what="the window of {} was interrupted {} times: {}".format(
                    one.window.phase, ATTEMPTS, why))  # fmt: skip

    def came_too_late(self) -> None:
        """The program ends: say which windows it did not come to."""
        for one in self.wanted:
            made = one.seen + (self.position if one is self.latest else 0)
            needed = one.window.before + len(one.window.kinds)
            if made < needed:
                receipts.say("short", phase=one.window.phase, made=made, needed=needed, calls=self.made)

    def program_ends(self) -> None:
        """The program ends: a window of which nothing is recorded was none."""
        if self.open and not self.recording():
            self.drop("the program ended")

    def drop(self, why: str) -> None:
        prof, self.prof, self.open = self.prof, None, None
        if prof is not None:
            getattr(prof, MARK).throw_away(prof, why)
