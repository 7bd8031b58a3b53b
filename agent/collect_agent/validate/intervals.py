"""The total length of a union of intervals, in one pass and constant memory."""

from __future__ import annotations

from bisect import bisect_right
from typing import List, Optional


class Union:
    """Union of intervals [start, end), exact integers, added in order of start or nearly so.

    Every CANN seen writes its rows in order of start time. The last `OPEN` separate intervals stay open to those that
    come late; of the earlier ones only the sum is kept.
    """

    OPEN = 64

    def __init__(self) -> None:
        self._starts: List[int] = []
        self._ends: List[int] = []
        self._settled = 0
        self._settled_end: Optional[int] = None
        self._exact = True

    def add(self, start: int, end: int) -> None:
        if self._starts and start < self._starts[-1]:
            self._add_late(start, end)
        elif self._starts and start <= self._ends[-1]:
            self._ends[-1] = max(self._ends[-1], end)
        else:
            self._starts.append(start)
            self._ends.append(end)
        if len(self._starts) > 2 * self.OPEN:
            self._settle()

    def length(self) -> Optional[int]:
        """None when an interval came too late to tell."""
        return self._settled + sum(self._ends) - sum(self._starts) if self._exact else None

    def _add_late(self, start: int, end: int) -> None:
        if self._settled_end is not None and start < self._settled_end:
            self._exact = False
            return
        at = bisect_right(self._starts, start)
        if at and start <= self._ends[at - 1]:
            at -= 1
            start, end = self._starts[at], max(end, self._ends[at])
        beyond = bisect_right(self._starts, end)
        end = max([end, *self._ends[at:beyond]])
        self._starts[at:beyond], self._ends[at:beyond] = [start], [end]

    def _settle(self) -> None:
        old = len(self._starts) - self.OPEN
        self._settled += sum(self._ends[:old]) - sum(self._starts[:old])
        self._settled_end = self._ends[old - 1]
        del self._starts[:old], self._ends[:old]
