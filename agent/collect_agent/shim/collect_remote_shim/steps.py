"""Profiles of a program that has no profiler: calls of a function or method are the steps."""

from __future__ import annotations

import atexit
import time
from typing import Any, Callable, Dict, Optional

from . import arguments, device, receipts
from .handlers import MARK, Asked, marked
from .request import Call, Request
from .windows import INTERRUPTED, NEXT, OPEN, Window, kind_of

ATTEMPTS = 5


class Wanted:
    """A window that is not recorded yet: calls seen before it, attempts that came to nothing."""

    def __init__(self, window: Window) -> None:
        self.window, self.seen, self.attempts = window, 0, 0


class Steps:
    """One of a process. One profiler at a time; a call inside another, or in another thread meanwhile, is no step."""

    def __init__(self, request: Request) -> None:
        self.wanted = [Wanted(Window(phase, numbers)) for phase, numbers in request.windows.items() if numbers]
        self.busy = self.heard = False
        self.open: Optional[Wanted] = None
        self.begun: Optional[Wanted] = None  # last
        self.prof: Any = None
        self.position = 0
        atexit.register(self.came_too_late)

    def call(self, call: Call, function: Callable[..., Any], args: Any, kwargs: Dict[str, Any]) -> Any:
        """Call `function`, as a step of a window where it is one."""
        if self.busy or not self.wanted:
            return function(*args, **kwargs)
        self.busy = True
        try:
            return self.counted(call, function, args, kwargs)
        finally:
            self.busy = False

    def counted(self, call: Call, function: Callable[..., Any], args: Any, kwargs: Dict[str, Any]) -> Any:
        kind = call.phase or kind_of(args, kwargs)
        recorded = receipts.guarded(self.before)(kind)
        begun = time.perf_counter()
        try:
            result = function(*args, **kwargs)
        except BaseException:
            if recorded:
                receipts.guarded(self.interrupted)("a call of {} raised".format(call.call))
            raise
        if recorded:
            receipts.guarded(self.after)()
        else:
            receipts.guarded(self.warmed_up)(kind, call.call, begun)
        return result

    # --- before a call ---

    def before(self, kind: str) -> bool:
        """Open a window, or go on to its next step; whether the call is one of its steps."""
        if self.open:
            meaning = self.open.window.decide(kind, self.open.seen, self.position)
            if meaning == NEXT:
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
            atexit.register(self.ended)  # after what stops all profilers, and so run before it
        self.prof.start()
        if not getattr(self.prof, MARK).wanted:
            self.wanted.clear()
            return False
        self.open, self.begun, self.position = one, one, 0
        return True

    def next(self) -> None:
        """The step before has ended; it is only now closed, so that what came in between is in none that counts."""
        device.synchronize()
        if self.open:
            getattr(self.prof, MARK).kind = self.open.window.kinds[self.position - 1]
        self.prof.step()

    # --- after a call ---

    def after(self) -> None:
        self.position += 1
        if self.open and self.position == len(self.open.window.kinds):
            self.next()
            self.prof.stop()
            self.wanted.remove(self.open)
            self.open = self.prof = None

    def warmed_up(self, kind: str, name: str, begun: float) -> None:
        waiting = [one for one in self.wanted if one is not self.open and one.window.counts(kind)]
        if waiting and not self.recording():
            device.synchronize()
            seconds = round(time.perf_counter() - begun, 6)
            for one in waiting:
                receipts.say("warmup", phase=one.window.phase, kind=kind, seconds=seconds, call=name)
        for one in waiting:
            one.seen += 1

    def recording(self) -> bool:
        return self.open is not None and self.position > self.open.window.warmup

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
            made = one.seen + (self.position if one is self.begun else 0)
            needed = one.window.before + len(one.window.kinds)
            if 0 < made < needed:
                receipts.say("short", phase=one.window.phase, made=made, needed=needed)

    def ended(self) -> None:
        """The program ends: a window of which nothing is recorded was none."""
        if self.open and not self.recording():
            self.drop("the program ended")

    def drop(self, why: str) -> None:
        prof, self.prof, self.open = self.prof, None, None
        if prof is not None:
            getattr(prof, MARK).throw_away(prof, why)
