"""The log of device use: who had which device open, and when."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Use(NamedTuple):
    """One process with one device open.

    `logic` is the id on the bare host, also for a process in a container.  `start` and `end` are seconds of
    CLOCK_MONOTONIC; `end` is None while the device is open, and for a process that was killed.  `beside` is another
    process that had the device open in that moment, killed ones told from live ones: the kernel knows.
    """

    pid: int
    logic: int
    start: float
    end: float | None
    beside: int | None


def read_uses(log: Path) -> list[Use]:
    """The uses in a ``use.log``, in the order in which they began."""
    found: list[Use] = []
    for line in log.read_text(encoding="ascii").splitlines():
        what, pid, phy, seconds, *beside = line.split()
        if what == "open":
            other = None if beside[0] == "-" else int(beside[0])
            found.append(Use(int(pid), int(phy), float(seconds), None, other))
            continue
        for at in range(len(found) - 1, -1, -1):
            if found[at][:2] == (int(pid), int(phy)):
                found[at] = found[at]._replace(end=float(seconds))
                break
    return found
