"""A whole trace, cut into runs of whole events that the helpers decode; in order, so that one answer comes of it.

A cut is made where the text reads like the end of one event and the beginning of the next. Every part, in brackets, has
to be a list by itself: then the whole is one, wherever the cuts fell. From the first part that is none on, the rest is
decoded here, event by event: either it was cut in an inner list, or it is damaged, and then that tells where.
"""

from __future__ import annotations

import io
from collections import deque
from concurrent.futures import Future
from typing import Deque, List, Optional, Tuple

from .cores import Helpers
from .jsonlist import batches
from .stream import Chain, buffered
from .tally import Tally, Trace

PART = 1 << 18
WORTH_HELPERS = 1 << 23  # bytes: to start them takes as long as to decode a few MiB
JOINTS = (b'}, {"', b'},{"')
MARK = b"\xef\xbb\xbf"


def read(raw: io.RawIOBase, size: int = 0) -> Trace:
    """Decode the whole trace, of about `size` bytes, and sum it up; Damage when it is not a complete list of events."""
    tally = Tally()
    if size < WORTH_HELPERS:
        _add(raw, 0, tally)
    else:
        source = _Parts(raw)
        undone = _helped(source, tally)
        _add(*source.rest(undone), tally)
    return tally.result()


def _add(raw: io.RawIOBase, passed: int, tally: Tally) -> None:
    for events in batches(raw, passed=passed):
        tally.add(events)


def _helped(source: "_Parts", tally: Tally) -> List[bytes]:
    """Add the tallies of all parts up to the first that is no list of events; that one, and those cut off after it."""
    coming: "Deque[Tuple[bytes, Future[Optional[Tally]]]]" = deque()
    with Helpers() as helpers:
        part = source.next()
        while part or coming:
            if part:
                coming.append((part, helpers.tally(part)))
            if not part or len(coming) > 2 * helpers.count:
                done = coming[0][1].result()
                if done is None:
                    break
                tally.merge(done)
                coming.popleft()
            part = source.next() if part else b""
    return [part for part, _ in coming]


class _Parts:
    """The text of a list, part by part."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._reader = buffered(raw)
        self._buffer = self._reader.read(PART)
        self._passed = 0
        start = self._buffer[len(MARK) if self._buffer.startswith(MARK) else 0 :].lstrip(b" \t\r\n")
        self._opened = start.startswith(b"[")
        if self._opened:
            self._passed = len(self._buffer) - len(start) + 1
            self._buffer = start[1:]

    def next(self) -> bytes:
        """Whole events, as it seems, with the comma behind them; b"" where the rest shows no joint."""
        if not self._opened:
            return b""
        self._buffer += self._reader.read(PART)
        cut = max(map(self._buffer.rfind, JOINTS))
        if cut < 0:
            return b""
        cut = self._buffer.index(b"{", cut)
        part, self._buffer = self._buffer[:cut], self._buffer[cut:]
        self._passed += len(part)
        return part

    def rest(self, undone: List[bytes]) -> Tuple[io.RawIOBase, int]:
        """A list of what follows the parts that are done, and how many bytes of the file came before it."""
        head = b"".join(undone) + self._buffer
        passed = self._passed - sum(map(len, undone))
        return (Chain(b"[" + head, self._reader), passed - 1) if self._opened else (Chain(head, self._reader), 0)
