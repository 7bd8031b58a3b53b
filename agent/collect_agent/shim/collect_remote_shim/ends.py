"""Profiles of a program in which calls of a function or method end the steps: a scheduler behind a denoiser."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Optional

from . import device, receipts
from .request import Call
from .steps import Steps


class Ends(Steps):
    """What lies between two of the calls is a step; what lies before the first of them is none."""

    last: Optional[float] = None  # when a step ended

    def counted(self, call: Call, function: Callable[..., Any], args: Any, kwargs: Dict[str, Any]) -> Any:
        try:
            result = function(*args, **kwargs)
        except BaseException:
            receipts.guarded(self.interrupted)("a call of {} raised".format(call.call))
            raise
        receipts.guarded(self.ended_step)(call)
        return result

    def ended_step(self, call: Call) -> None:
        """Close the step that a window of ours has open, or see whether one begins here."""
        if self.open:
            self.next()
            self.position += 1
            if self.position == len(self.open.window.kinds):
                self.prof.stop()
                self.wanted.remove(self.open)
                self.open = self.prof = None
            return
        device.synchronize()
        one = next(one for one in self.wanted if one.window.phase == call.phase)
        if self.last is not None:
            receipts.say("warmup", phase=call.phase, seconds=round(time.perf_counter() - self.last, 6), call=call.call)
            one.seen += 1
        self.last = time.perf_counter()
        if one.seen >= one.window.before:
            self.begin(one)
