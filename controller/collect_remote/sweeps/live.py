"""What a person sees of a sweep while it runs, on stderr: a line for every running cell on a terminal, plain lines
elsewhere. Whoever reads it may go away; that ends nothing.
"""

from __future__ import annotations

import abc
import os
import sys
import threading
from collections.abc import Iterable
from typing import TextIO

from collect_agent.events import Event

from . import clock
from .board import Board, render, sentence
from .cells import Progress

REDRAWN_S = 0.2
TOTALS_S = 60.0
UNKNOWN_SIZE = (80, 24)


class _View(abc.ABC):
    """What both have in common. Cells are worked on in threads: any of them may tell."""

    def __init__(self, cells: Iterable[Progress], out: TextIO) -> None:
        self._board = Board(cells)
        self._out: TextIO | None = out
        self._lock = threading.RLock()  # a signal may come while it is held

    def began(self, progress: Progress) -> None:
        with self._lock:
            now = clock.now()
            self._board.began(progress, now)
            self._has_begun(progress, now)

    def event(self, cell_key: str, event: Event) -> None:
        with self._lock:
            now = clock.now()
            self._board.event(cell_key, event, now)
            self._goes_on(now)

    def ended(self, progress: Progress, again_in: float | None = None) -> None:
        """`again_in`: seconds until it is tried again; None when it is not."""
        with self._lock:
            self._board.ended(progress, again_in)
            self._has_ended(progress, again_in, clock.now())

    def tick(self, now: float) -> None:
        """To be called every now and then, with the time in seconds since the epoch: nothing else moves the clocks."""
        with self._lock:
            self._goes_on(now)

    def close(self) -> None:
        """Nothing is said any more."""
        with self._lock:
            self._out = None

    @abc.abstractmethod
    def _has_begun(self, progress: Progress, now: float) -> None: ...

    @abc.abstractmethod
    def _has_ended(self, progress: Progress, again_in: float | None, now: float) -> None: ...

    @abc.abstractmethod
    def _goes_on(self, now: float) -> None: ...

    def _put(self, text: str) -> None:
        if self._out is not None:
            try:
                self._out.write(text)
                self._out.flush()
            except OSError:
                self._out = None


class Plain(_View):
    """A line when an attempt begins and when it ends, with the time since the start, and the totals every minute."""

    def __init__(self, cells: Iterable[Progress], out: TextIO) -> None:
        super().__init__(cells, out)
        self._started = self._told = clock.now()

    def _has_begun(self, progress: Progress, now: float) -> None:
        attempt = f", attempt {progress.attempts}" if progress.attempts > 1 else ""
        self._line(f"{progress.cell.key}: begun{attempt}", now)

    def _has_ended(self, progress: Progress, again_in: float | None, now: float) -> None:
        self._line(sentence(progress, again_in), now)

    def _goes_on(self, now: float) -> None:
        if now - self._told >= TOTALS_S:
            self._told = now
            self._line(self._board.totals(now), now)

    def _line(self, text: str, now: float) -> None:
        self._put(f"{now - self._started:7.1f} s  {text}\n")


class Live(_View):
    """The board, redrawn in place; what fails stays above it."""

    def __init__(self, cells: Iterable[Progress], out: TextIO) -> None:
        super().__init__(cells, out)
        self._drawn: list[str] = []
        self._above: list[str] = []
        self._last = 0.0

    def close(self) -> None:
        """The terminal as it was, with what has failed."""
        with self._lock:
            self._show([], _size(self._out)[0])
            super().close()

    def _has_begun(self, progress: Progress, now: float) -> None:  # noqa: ARG002 - the board has it
        self._goes_on(now)

    def _has_ended(self, progress: Progress, again_in: float | None, now: float) -> None:
        if progress.outcome is None or progress.outcome.state != "valid":
            self._above.append(sentence(progress, again_in))
        self._goes_on(now)

    def _goes_on(self, now: float) -> None:
        if now - self._last < REDRAWN_S:
            return
        self._last = now
        columns, lines = _size(self._out)
        self._show(render(self._board, columns, lines - 1, now), columns)

    def _show(self, lines: list[str], columns: int) -> None:
        """In the place of what is there: that takes more rows when the terminal has become narrower."""
        rows = sum(max(1, -(-len(line) // columns)) for line in self._drawn)
        back = f"\x1b[{rows}A" if rows else ""
        self._put(f"{back}\r\x1b[J" + "".join(line + "\n" for line in self._above + lines))
        self._drawn, self._above = lines, []


def _size(out: TextIO | None) -> tuple[int, int]:
    """Columns and lines of the terminal; one that does not know has none."""
    try:
        size = os.get_terminal_size(out.fileno()) if out else (0, 0)
    except (OSError, ValueError):
        size = (0, 0)
    return size[0] or UNKNOWN_SIZE[0], size[1] or UNKNOWN_SIZE[1]


def view(cells: Iterable[Progress], out: TextIO | None = None) -> Live | Plain:
    """The one that fits the stream (stderr by default)."""
    stream = out or sys.stderr
    drawable = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return Live(cells, stream) if drawable else Plain(cells, stream)
