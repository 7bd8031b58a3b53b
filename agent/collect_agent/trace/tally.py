"""What the events of a trace add up to, so that the tallies of its parts add up to that of the whole."""

from __future__ import annotations

import re
from itertools import compress
from operator import add, itemgetter
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from .sketch import Sketch, time_key
from .stream import Damage

DEVICE_PROCESS = "Ascend Hardware"
STEP = re.compile(r"ProfilerStep#(\d{1,18})$")
COMPILE = re.compile(r"AscendCL@(aclopCompileAndExecute|aclopCompile|opCompile)")
# A compile shorter than this is the look-up of a cached operator: healthy 910A steps hold 177 of them (mean
# 93 us).
LONG_COMPILE_US = 10_000.0
LONGEST_US = 1e18

_slice_of = itemgetter("pid", "ts", "dur")


class Trace(NamedTuple):
    """What a trace shows. Times in microseconds; `device_span` covers the slices of the device, (first,
    last).
    """

    events: int
    device_slices: int
    device_span: Optional[Tuple[float, float]]
    steps: Dict[int, Tuple[float, float]]  # ProfilerStep number -> (ts, dur)
    starts: Sketch  # of the slices of the device; empty when their times are no decimal strings
    compiles: int
    long_compiles: int
    long_compile_us: float
    longest_compile_us: float


class _Span:
    """Slices of one process: how many, when the first began and the last ended, and a sample of their starts."""

    __slots__ = ("count", "first", "last", "starts")

    def __init__(self) -> None:
        self.count, self.first, self.last = 0, float("inf"), float("-inf")
        self.starts = Sketch()


class Tally:
    """Sums over events. They are taken by columns, not one by one: a gigabyte holds five million of them."""

    def __init__(self) -> None:
        self._events = 0
        self._spans: Dict[Any, _Span] = {}
        self._device_pids: Set[Any] = set()
        self._steps: Dict[int, Tuple[float, float]] = {}
        self._compiles = self._long_compiles = 0
        self._long_us = self._longest_us = 0.0

    def add(self, events: List[Any]) -> None:
        """Damage when one of them is no trace event."""
        try:
            kinds = [event.get("ph") for event in events]
            if "X" in kinds:
                self._add_slices([event for event, kind in zip(events, kinds) if kind == "X"])
            if "M" in kinds:
                self._add_names([event for event, kind in zip(events, kinds) if kind == "M"])
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise self._fault(events) from None
        self._events += len(events)

    def merge(self, other: "Tally") -> None:
        """Add what `other` counted, of events that come after ours."""
        self._events += other._events
        for pid, span in other._spans.items():
            mine = self._spans.setdefault(pid, _Span())
            mine.count += span.count
            mine.first, mine.last = min(mine.first, span.first), max(mine.last, span.last)
            mine.starts.merge(span.starts)
        self._device_pids |= other._device_pids
        self._steps.update(other._steps)
        self._compiles += other._compiles
        self._long_compiles += other._long_compiles
        self._long_us += other._long_us
        self._longest_us = max(self._longest_us, other._longest_us)

    def result(self) -> Trace:
        device = [self._spans[pid] for pid in self._device_pids if pid in self._spans]
        starts = Sketch()
        for span in device:
            starts.merge(span.starts)
        return Trace(
            events=self._events,
            device_slices=sum(span.count for span in device),
            device_span=(min(s.first for s in device), max(s.last for s in device)) if device else None,
            steps=self._steps,
            starts=starts,
            compiles=self._compiles,
            long_compiles=self._long_compiles,
            long_compile_us=self._long_us,
            longest_compile_us=self._longest_us,
        )

    def _add_slices(self, slices: List[Dict[str, Any]]) -> None:
        pids, times, lengths = zip(*map(_slice_of, slices))
        starts, durations = list(map(float, times)), list(map(float, lengths))
        if not (_possible(starts) and _possible(durations)):
            raise ValueError
        ends = list(map(add, starts, durations))
        for pid in set(pids):
            span = self._spans.get(pid)
            if span is None:
                span = self._spans[pid] = _Span()
            of_pid = pids.count(pid)
            span.count += of_pid
            mine = None if of_pid == len(pids) else [other == pid for other in pids]
            span.first = min(span.first, min(compress(starts, mine) if mine else starts))
            span.last = max(span.last, max(compress(ends, mine) if mine else ends))
        for event in slices:  # what the device part added has no category
            if "cat" not in event and isinstance(event["ts"], str):
                self._spans[event["pid"]].starts.add(time_key(event["ts"]))
        names = [event.get("name") for event in slices]
        words = "\n".join(map(str, names))
        if "ProfilerStep#" in words or "AscendCL@" in words:
            for name, start, duration in zip(names, starts, durations):
                self._add_name(str(name), start, duration)

    def _add_name(self, name: str, start: float, duration: float) -> None:
        if name.startswith("ProfilerStep#"):
            match = STEP.match(name)
            if match:
                self._steps[int(match.group(1))] = (start, duration)
        elif name.startswith("AscendCL@") and COMPILE.match(name):
            self._compiles += 1
            self._longest_us = max(self._longest_us, duration)
            if duration >= LONG_COMPILE_US:
                self._long_compiles += 1
                self._long_us += duration

    def _add_names(self, events: List[Dict[str, Any]]) -> None:
        for event in events:
            arguments = event.get("args")
            named = arguments.get("name") if isinstance(arguments, dict) else None
            if event.get("name") == "process_name" and named == DEVICE_PROCESS:
                self._device_pids.add(event.get("pid"))

    def _fault(self, events: List[Any]) -> Damage:
        """What is wrong with the first bad one of `events`."""
        for number, event in enumerate(events, self._events + 1):
            if not isinstance(event, dict):
                return Damage("holds %s where an event belongs" % type(event).__name__)
            if event.get("ph") != "X":
                continue
            try:
                pid, *times = _slice_of(event)
                hash(pid)
                good = _possible(list(map(float, times)))
            except (KeyError, TypeError, ValueError, OverflowError):
                return Damage("has a slice without time or process, event %d" % number)
            if not good:
                return Damage("has a slice with an impossible time, event %d" % number)
        return Damage("names a process that is none, behind event %d" % self._events)


def _possible(times: Sequence[float]) -> bool:
    """Whether they are numbers, and none of them beyond all clocks."""
    whole = sum(times)  # of min and max alone, a NaN among the others would not be seen
    return whole == whole and min(times) > -LONGEST_US and max(times) < LONGEST_US
