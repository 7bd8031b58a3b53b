"""Processes of a container as its host numbers them. Linux /proc only; readable by every user."""

from __future__ import annotations

import os
from typing import Iterable, List, Tuple

from ..run import process


def pids_outside(identities: Iterable[Tuple[int, str]]) -> List[int]:
    """Our pids of the processes that have these (pid, start time) in their own namespace.

    The kernel counts start times alike in all namespaces; together with the inner pid they name one process.
    """
    wanted = {(int(pid), start_time) for pid, start_time in identities}
    numbers = {pid for pid, _ in wanted}
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        inner = _inner_pid(pid)
        if inner in numbers and (inner, process.start_time(pid)) in wanted:
            found.append(pid)
    return sorted(found)


def _inner_pid(pid: int) -> int:
    """The number that a process has in its own namespace of pids; -1 when it is gone, or hidden from us."""
    try:
        with open("/proc/{}/status".format(pid), encoding="utf-8", errors="replace") as file:
            return next((int(line.split()[-1]) for line in file if line.startswith("NSpid:")), pid)
    except OSError:
        return -1
