"""Stopping a run, and proving that nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import List

from . import process
from .rundir import RunDir


def stop(run: RunDir, grace_s: float = 15.0) -> List[int]:
    """Ask the supervisor to end the run, then end whatever is left; pids that survived (none, if all is well).

    Safe to call at any time and repeatedly. A run that is only about to start finds its id taken and does not.
    """
    os.makedirs(run.path, mode=0o750, exist_ok=True)
    try:
        with open(run.pid, encoding="utf-8") as file:
            supervisor = json.load(file)
    except (OSError, ValueError):
        supervisor = None
    if supervisor and process.start_time(supervisor["pid"]) == supervisor["start_time"]:
        os.kill(supervisor["pid"], signal.SIGTERM)
        until = time.monotonic() + grace_s
        while process.start_time(supervisor["pid"]) == supervisor["start_time"] and time.monotonic() < until:
            time.sleep(0.05)
    return process.end(run.id, grace_s=0.0)
