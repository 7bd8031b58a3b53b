"""What is known of a sweep while it runs, and how that looks. Pure: `now` is seconds since the epoch."""

from __future__ import annotations

import bisect
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..cli.progress import TITLES
from ..errors import one_line
from .cells import Progress

WIDEST = 20  # column of names
ENDED = ("valid", "failed")


@dataclass(slots=True)
class Running:
    """A cell that is being worked on: what it does, since when it does that, and since when it is worked on."""

    names: tuple[str, str, str]  # host, model, phase with what else tells the cell from others
    began: float
    stage: str = ""
    words: str = "beginning"
    entered: float = 0.0


class Board:
    """The state of every cell. What was running when this tool did not is waiting."""

    def __init__(self, cells: Iterable[Progress]) -> None:
        self.running: dict[str, Running] = {}
        self.most = 0  # that were running at once
        self._states: dict[str, str] = {}
        self._took: list[float] = []  # seconds of those that are valid, ascending: a refusal takes none
        for progress in cells:
            self._set(progress, progress.state)

    def began(self, progress: Progress, now: float) -> None:
        cell = progress.cell
        names = (cell.host, cell.model, cell.key.removeprefix(f"{cell.host}/{cell.model}/"))
        self._states[cell.key] = "running"
        self.running[cell.key] = Running(names, now, entered=now)
        self.most = max(self.most, len(self.running))

    def event(self, key: str, event: Mapping[str, Any], now: float) -> None:
        """An event of an attempt that has ended is too late to be of interest."""
        running = self.running.get(key)
        if running is None:
            return
        if event["stage"] != running.stage:
            running.stage, running.entered = event["stage"], now
        counted = _counted(event)
        running.words = one_line(TITLES.get(running.stage, running.stage)) + (f": {counted}" if counted else "")

    def ended(self, progress: Progress, again_in: float | None) -> None:
        """`again_in`: seconds until it is tried again; None when it is not."""
        self.running.pop(progress.cell.key, None)
        self._set(progress, progress.state if again_in is None else "pending")

    def _set(self, progress: Progress, state: str) -> None:
        self._states[progress.cell.key] = state if state in ENDED else "waiting"
        if state == "valid" and progress.began is not None and progress.ended is not None:
            bisect.insort(self._took, progress.ended - progress.began)

    def totals(self, now: float) -> str:
        found = Counter(self._states.values())
        parts = (f"{found[state]} {state}" for state in (*ENDED, "running", "waiting"))
        left = self.seconds_left(now)
        return f"{', '.join(parts)}; {'?' if left is None else span(left)} left"

    def seconds_left(self, now: float) -> float | None:
        """By the median of the valid cells, and as many at once as there were; None before the first."""
        if not self._took:
            return None
        median = statistics.median(self._took)
        begun = [max(0.0, median - (now - running.began)) for running in self.running.values()]
        waiting = sum(state == "waiting" for state in self._states.values())
        at_once = max(1, min(self.most, waiting + len(begun)))
        return max((waiting * median + sum(begun)) / at_once, *begun, 0.0)


def render(board: Board, columns: int, lines: int, now: float) -> list[str]:
    """At most `lines` lines shorter than `columns`: of the running cells the oldest, and the totals."""
    cells = sorted(board.running.values(), key=lambda cell: (cell.began, cell.names))
    room = max(0, lines - 1)
    hidden = 0
    if len(cells) > room:
        room = max(0, room - 1)
        hidden = len(cells) - room
    shown = cells[:room]
    widths = [min(WIDEST, max(map(len, names))) for names in zip(*(cell.names for cell in shown), strict=True)]
    text = [_line(cell, widths, now) for cell in shown]
    text += [f"and {hidden} more"] if hidden and shown else []
    text += [board.totals(now)]
    return [line[: max(0, columns - 1)] for line in text][:lines]


def _line(cell: Running, widths: Iterable[int], now: float) -> str:
    names = "  ".join(one_line(name)[:width].ljust(width) for name, width in zip(cell.names, widths, strict=True))
    return f"{names}  {span(now - cell.entered):>7}  {cell.words}"


def _counted(event: Mapping[str, Any]) -> str:
    """The steps or bytes of an event, where it has any."""
    total = event.get("of")
    if not total:
        return ""
    if "step" in event:
        return one_line(f"{event.get('kind', '')} step {event['step']} of {total}")
    return f"{event['bytes'] / 1e6:.1f} of {total / 1e6:.1f} MB" if "bytes" in event else ""


def sentence(progress: Progress, again_in: float | None) -> str:
    """How an attempt has ended: of which cell, how, after which time, why, and whether it is tried again."""
    outcome = progress.outcome
    how = outcome.state if outcome else progress.state
    if progress.began is not None and progress.ended is not None:
        how += f" after {span(progress.ended - progress.began)}"
    why = outcome.error["message"] if outcome and outcome.error else outcome.directory if outcome else None
    again = "" if again_in is None else f"; again in {span(again_in)}"
    return f"{progress.cell.key}: {how}{f': {one_line(why)}' if why else ''}{again}"


def span(seconds: float) -> str:
    """Like "8 s", "4 min", "2 h 5 min"."""
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole} s"
    minutes = whole // 60
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
