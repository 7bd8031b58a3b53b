"""Stopping a run, and proving that nothing of it is left."""

from __future__ import annotations

import os
import shutil
import signal
import time
from typing import List

from .. import events
from ..boxes import ownership
from ..output import elsewhere
from ..troubles import GOES_ON
from . import process, putback
from .rundir import RunDir


def stop(run: RunDir, grace_s: float = 15.0) -> List[int]:
    """Ask the supervisor to end the run, then end whatever is left; pids that survived (none, if all is well).

    Safe to call at any time and repeatedly. A run that is only about to start finds its id taken and does not.
    """
    if not os.path.isdir(run.path):
        _take_id(run)
    supervisor = process.recorded(run.pid)
    if supervisor is not None:
        os.kill(supervisor, signal.SIGTERM)
    elif process.elsewhere(run.pid):
        with open(run.stop, "w", encoding="utf-8"):
            pass
    until = time.monotonic() + grace_s
    while _is_alive(run) and time.monotonic() < until:
        time.sleep(0.05)
    left = process.end(run.id, grace_s=0.0)
    elsewhere.remove_copies(run)
    ownership.give_back(run)
    if not left and _is_alive(run):
        raise GOES_ON(run=run.id)
    putback.put_back(run)
    return left


def _is_alive(run: RunDir) -> bool:
    told = events.read(run.events)
    over = bool(told) and told[-1]["stage"] == "end"
    return process.recorded(run.pid) is not None or (not over and process.elsewhere(run.pid))


def _take_id(run: RunDir) -> None:
    """Put a directory in the place of the run that is about to start: not empty, or `start` could still take it."""
    staged = RunDir(os.path.join(os.path.dirname(run.path), ".{}.stopped.{}".format(run.id, os.getpid())))
    try:
        os.makedirs(staged.path, mode=0o750)
        with open(staged.stopped, "w", encoding="utf-8"):
            pass
        os.rename(staged.path, run.path)
    except OSError:  # it is there now; or there is no space for it, nor for a run
        shutil.rmtree(staged.path, ignore_errors=True)
