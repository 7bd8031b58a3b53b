"""The way between a run in a container and its keeper on the host: started by the keeper, through the engine.

What the run asks goes to our stdout, what comes on our stdin is its answers. It starts from the first question every
time, because nobody knows what a broken way has lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time
from typing import List, Optional

from .. import events
from ..run import process
from ..run.rundir import RunDir

ENDED, BUSY, NEVER, GONE = 40, 41, 42, 43  # exit statuses that no engine has of its own
OVER = "over"  # from the keeper: whoever was to start the run has come to its end
POLL_S = 0.05
PATIENCE_S = 120.0


def bridge(run: RunDir) -> int:
    """Carry until the run has ended (ENDED) or the keeper has gone (GONE).

    NEVER when there is no such run and none will come, BUSY when another one carries for it.
    """
    keeper, until = _Keeper(), time.monotonic() + PATIENCE_S
    while not os.path.exists(run.plan):
        lines = keeper.lines(POLL_S)
        if lines is None:
            return GONE
        if os.path.isdir(run.path):  # it was stopped before it started, or appeared just now
            return ENDED if not os.path.exists(run.plan) else bridge(run)
        if OVER in lines or time.monotonic() > until:
            return NEVER
    if not _alone(run):
        return BUSY
    try:
        return _carry(run, keeper)
    finally:
        with contextlib.suppress(OSError):  # the run may have been fetched and removed
            os.unlink(run.bridge)


def _carry(run: RunDir, keeper: _Keeper) -> int:
    offset = 0
    while True:
        alive = process.recorded(run.pid) is not None
        for line in events.complete_lines(run.asked, offset):
            offset += len(line.encode())
            sys.stdout.write(line)
        sys.stdout.flush()
        if not alive:
            return ENDED
        lines = keeper.lines(POLL_S)
        if lines is None:
            return GONE
        answers = [line for line in lines if line != OVER]
        if answers:
            with contextlib.suppress(OSError), open(run.answered, "a", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in answers)


def _alone(run: RunDir) -> bool:
    """Write down that we carry for this run, unless somebody does."""
    if process.recorded(run.bridge) is not None:
        return False
    aside = "{}.{}".format(run.bridge, os.getpid())
    with open(aside, "w", encoding="utf-8") as file:
        json.dump(process.identity(os.getpid()), file)
    os.replace(aside, run.bridge)
    return process.recorded(run.bridge) == os.getpid()


class _Keeper:
    """What comes from the keeper."""

    def __init__(self) -> None:
        self._rest = b""

    def lines(self, within_s: float) -> Optional[List[str]]:
        """Whole lines that have come, after `within_s` at the latest; None when nobody is there any more."""
        if not select.select([0], [], [], within_s)[0]:
            return []
        data = os.read(0, 1 << 16)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.decode() for line in lines]
