"""What is to be done next in a sweep, and what an attempt means for its cell. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import UsageError, kinds
from .cells import Outcome, Progress

PAUSE_S, LONGEST_PAUSE_S = 2.0, 300.0  # before the first retry; it doubles
RETRIES = {"unreachable": 2, "transfer": 1}
SHARE = re.compile(r"\d{1,9}|\d{1,3}(\.\d+)?%")
_RELEASES = ("python", "cann", "torch", "torch_npu")


@dataclass(frozen=True, slots=True)
class Limits:
    """How a sweep may go about its cells.

    jobs: cells at once; per_host: on one host. retries: {entry of an error's class: how often a cell is tried again}.
    max_fail: cells that may fail before no further one is begun, "20" or "20%"; None: all of them. timeout: seconds for
    one attempt at a cell, everything included; None: as long as its own time-outs allow. UsageError for what is none.
    """

    jobs: int = 64
    per_host: int = 1
    retries: Mapping[str, int] = field(default_factory=lambda: dict(RETRIES))
    max_fail: str | int | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        if min(self.jobs, self.per_host) < 1:
            raise UsageError(f"no cell can be run with jobs={self.jobs}, per_host={self.per_host}", "have at least 1")
        if self.max_fail is not None and not SHARE.fullmatch(str(self.max_fail)):
            raise UsageError(f"{self.max_fail!r} is neither a number of cells nor a share", "write 20 or 20%")
        if self.timeout is not None and not self.timeout > 0:
            raise UsageError(f"a cell cannot be done in {self.timeout} s", "give it more, or None")
        if foreign := self.retries.keys() - {*kinds()}:
            raise UsageError(f"there is no kind of error {min(foreign)!r}", f"there are {', '.join(kinds())}")


def startable(cells: Iterable[Progress], limits: Limits, now: float) -> list[Progress]:
    """The cells to begin now: hosts that have had the least come first, so that none waits for another."""
    every = list(cells)
    busy = Counter(one.cell.host for one in every if one.state == "running")
    had = Counter(one.cell.host for one in every if one.attempts)
    room = limits.jobs - busy.total()
    chosen: list[Progress] = []
    if room <= 0 or exhausted(every, limits):
        return chosen
    waiting = [one for one in every if one.state == "pending" and not _pauses(one, now)]
    turn: Counter[str] = Counter()
    queue = []
    for place, one in enumerate(waiting):
        queue.append((had[one.cell.host] + turn[one.cell.host], place, one))
        turn[one.cell.host] += 1
    for _, _, one in sorted(queue, key=lambda entry: entry[:2]):
        if busy[one.cell.host] < limits.per_host and len(chosen) < room:
            busy[one.cell.host] += 1
            chosen.append(one)
    return chosen


def next_due(cells: Iterable[Progress], limits: Limits, now: float) -> float | None:
    """When a cell that waits for its time may be tried again; None when none does."""
    every = list(cells)
    if exhausted(every, limits):
        return None
    return min((one.due for one in every if one.state == "pending" and _pauses(one, now)), default=None)


def _pauses(one: Progress, now: float) -> bool:
    """No pause is longer than the longest: when it seems so, the clock was set back since."""
    return now < one.due <= now + LONGEST_PAUSE_S


def exhausted(cells: Sequence[Progress], limits: Limits) -> bool:
    """Whether more cells have failed than may."""
    if limits.max_fail is None:
        return False
    said = str(limits.max_fail)
    most = len(cells) * float(said[:-1]) / 100 if said.endswith("%") else int(said)
    return sum(one.state == "failed" for one in cells) > most


def after(outcome: Outcome, failures: int, limits: Limits, now: float) -> tuple[str, float]:
    """The state of a cell whose attempt has ended so, and when it may be tried again.

    `failures`: attempts at it that have failed since the sweep was begun or resumed, this one included.
    """
    if outcome.state == "valid":
        return "valid", 0.0
    if outcome.state in ("lost", "interrupted"):
        return "pending", 0.0
    kinds = (outcome.error or {}).get("kinds", ())
    allowed = next((limits.retries[kind] for kind in kinds if kind in limits.retries), 0)
    if failures > allowed:
        return "failed", 0.0
    return "pending", now + min(PAUSE_S * 2 ** (failures - 1), LONGEST_PAUSE_S)


def stale(cells: Sequence[Progress], fresh: Progress) -> list[Progress]:
    """Results of the same host that other releases than those of the `fresh` one took part in: they do not go together.

    Which releases a host has is known only when a run was there.
    """
    now = _releases(fresh.outcome)
    return [
        one
        for one in cells
        if one.cell.host == fresh.cell.host
        and one.state == "valid"
        and one.cell.key != fresh.cell.key
        and any(now[name] != then for name, then in _releases(one.outcome).items() if name in now)
    ]


def doomed(cells: Sequence[Progress], failed: Progress) -> list[Progress]:
    """What need not be tried when a cell has failed for good: the other cells of a host that does not let us in."""
    kinds = ((failed.outcome and failed.outcome.error) or {}).get("kinds", ())
    if failed.state != "failed" or "connection" not in kinds:
        return []
    return [one for one in cells if one.cell.host == failed.cell.host and one.state == "pending"]


def given_up(one: Progress, failed: Progress) -> Outcome:
    """How a cell ends that is not tried any more, for the same reason as another."""
    error = dict((failed.outcome and failed.outcome.error) or {})
    message = f"given up, as {failed.cell.key} had failed: {error.get('message')}"
    return Outcome("failed", {**error, "message": message}, left=bool(one.outcome and one.outcome.left))


def _releases(outcome: Outcome | None) -> dict[str, str]:
    versions = outcome.versions if outcome else {}
    return {name: str(versions[name]) for name in _RELEASES if versions.get(name)}
