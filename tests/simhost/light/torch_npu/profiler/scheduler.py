"""Which steps are skipped, warmed up and recorded."""

from __future__ import annotations

from enum import Enum
from typing import Any

from .._errors import error_line
from ._messages import warn


class ProfilerAction(Enum):
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_LOWEST = {"wait": 0, "warmup": 0, "active": 1, "repeat": 0, "skip_first": 0}


class Schedule:
    """``skip_first`` steps of nothing, then cycles of ``wait``, ``warmup`` and ``active`` steps, ``repeat`` times
    (0: until the end). A value that makes no sense is replaced and warned about. The attributes are what
    profiler_info.json shows.
    """

    def __init__(
        self, wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
    ) -> None:
        self.wait = wait
        self.active = active
        self.warmup = warmup
        self.repeat = repeat
        self.skip_first = skip_first
        self.skip_first_wait = skip_first_wait
        for name, lowest in _LOWEST.items():
            value: Any = getattr(self, name)
            if not isinstance(value, int) or value < lowest:
                warn("Invalid parameter {}, reset it to {}.".format(name, lowest))
                setattr(self, name, lowest)
        if not isinstance(self.skip_first_wait, int):
            warn("Invalid parameter skip_first_wait, reset it to 0.")
            self.skip_first_wait = 0
        if self.warmup == 0:
            warn("Profiler won't be using warmup, this can skew profiler results")

    def __call__(self, step: int) -> ProfilerAction:
        """The action of a step, counted from 0; raises ValueError for a negative one."""
        if step < 0:
            raise ValueError("Invalid parameter step, which must be not less than 0." + error_line("PROF", "value"))
        if step < self.skip_first:
            return ProfilerAction.NONE
        place = step - self.skip_first + (self.wait if self.skip_first_wait else 0)
        cycle = self.wait + self.warmup + self.active
        if self.repeat and place >= self.repeat * cycle:
            return ProfilerAction.NONE
        place %= cycle
        if place < self.wait:
            return ProfilerAction.NONE
        if place < self.wait + self.warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == cycle - 1 else ProfilerAction.RECORD


def record_always(step: int) -> ProfilerAction:
    """What a profiler without a schedule does."""
    return ProfilerAction.RECORD
