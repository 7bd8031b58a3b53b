"""Stopping a run, and proving that nothing of it is left."""

from __future__ import annotations

import os
import shutil
import signal
import time
from typing import List

from . import elsewhere, ownership, process
from .rundir import RunDir


def stop(run: RunDir, grace_s: float = 15.0) -> List[int]:
    """Ask the supervisor to end the run, then end whatever is left; pids that survived (none, if all is well).

    Safe to call at any time and repeatedly. A run that is only about to start finds its id taken and does not.
    """
    _take_id(run)
    supervisor = process.recorded(run.pid)
    if supervisor is not None:
        os.kill(supervisor, signal.SIGTERM)
        until = time.monotonic() + grace_s
        while process.recorded(run.pid) is not None and time.monotonic() < until:
            time.sleep(0.05)
    left = process.end(run.id, grace_s=0.0)
    elsewhere.remove_copies(run)
    ownership.give_back(run)
    return left


def _take_id(run: RunDir) -> None:
    """Unless the run is there, put a directory in its place: not empty, or `start` could still take it."""
    marker = "{}.stopped.{}".format(os.path.join(os.path.dirname(run.path), "." + run.id), os.getpid())
    os.makedirs(marker, mode=0o750)
    with open(os.path.join(marker, "stopped"), "w", encoding="utf-8"):
        pass
    try:
        os.rename(marker, run.path)
    except OSError:
        shutil.rmtree(marker)
