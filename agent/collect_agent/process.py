"""Finding and ending the processes of a run, by what the kernel says, never by name.

A run's processes carry its id in their environment (`RUN_VARIABLE`), so they are found wherever they moved: other
sessions, other process groups, re-parented to init. Linux /proc only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from typing import List, Optional

RUN_VARIABLE = "COLLECT_REMOTE_RUN"
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Called in a child between fork and exec: the kernel kills it when its parent is killed."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start_time(pid: int) -> Optional[str]:
    """The kernel's start time of a process (clock ticks since boot), None when it is gone or a zombie.

    Together with the pid it names one process for ever: pids are used again, this pair is not.
    """
    try:
        with open("/proc/{}/stat".format(pid), encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def of_run(run_id: str) -> List[int]:
    """Live processes of this user that carry the run's id, this one excluded."""
    needle = "{}={}".format(RUN_VARIABLE, run_id).encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open("/proc/{}/environ".format(name), "rb") as file:
                ours = needle in file.read().split(b"\0")
        except OSError:
            continue
        if ours and start_time(int(name)) is not None:
            found.append(int(name))
    return found


def end(run_id: str, *, grace_s: float, spare: Optional[int] = None) -> List[int]:
    """End every process of the run: SIGTERM, `grace_s` seconds, SIGKILL. Returns those that are still there.

    `spare` is a pid that is left alone (the supervisor, while it cleans up after itself).
    """
    for number, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        until = time.monotonic() + patience
        signalled = set()
        while True:
            left = [pid for pid in of_run(run_id) if pid != spare]
            if not left:
                return []
            for pid in left:
                if pid not in signalled or number == signal.SIGKILL:
                    signalled.add(pid)
                    _signal(pid, number)
            if time.monotonic() > until:
                break
            time.sleep(0.05)
    return left


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
