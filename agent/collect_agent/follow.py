"""Following a run: its events to stdout from any point on, until it has ended or the reader has gone."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import Any, Dict, Optional

from . import events, process, remains
from .failure import Failure
from .rundir import RunDir

POLL_S = (0.05, 0.5)  # while much happens, and while nothing does
HEARTBEAT_S = 5.0
STARTING_S = 10.0
GRACE_S = 5.0  # for a supervisor whose run was removed, to end it


def follow(run: RunDir, after: int = 0) -> int:
    """Copy the events with seq > `after` to stdout as they come; 0 when the `end` event was among them, else 1.

    A line with `heartbeat` goes out at least every five seconds, so that either side notices a dead connection, and
    the run's orphan rule is told that somebody is there. A run that cannot tell its end any more is ended here.
    """
    offset, last_beat, pause = 0, 0.0, POLL_S[0]
    supervisor = Supervisor(run)
    while True:
        alive = supervisor.is_alive()
        pause = min(POLL_S[1], pause * 1.2)
        for line in events.complete_lines(run.events, offset):
            offset += len(line.encode())
            pause = POLL_S[0]
            event = json.loads(line)
            if event["seq"] > after:
                sys.stdout.write(events.on_wire(event))
            if event["stage"] == "end":
                sys.stdout.flush()
                return 0
        if supervisor.lost_its_files():
            return _give_up(run, remains.removed(run), GRACE_S)
        if not alive:
            # The journal was read after the supervisor was seen dead: nothing more can come.
            return _give_up(run, Failure("RunFailed", "the supervisor of the run died", "read " + run.log), 0.0)
        if time.monotonic() - last_beat >= HEARTBEAT_S:
            last_beat = time.monotonic()
            with contextlib.suppress(FileNotFoundError):  # removed a moment ago: the next look will tell
                run.touch_followed()
            sys.stdout.write(events.on_wire({"stage": "heartbeat"}))
        sys.stdout.flush()
        time.sleep(pause)


def _give_up(run: RunDir, failure: Failure, grace_s: float) -> int:
    """End what is left of the run, then say why."""
    process.end(run.id, grace_s=grace_s)
    remains.trim(run)
    sys.stdout.write(events.on_wire(events.failed(failure)))
    sys.stdout.flush()
    return 1


class Supervisor:
    """The supervisor of a run, as one that follows sees it; known once its pid file was read."""

    def __init__(self, run: RunDir) -> None:
        self._run, self._since = run, time.monotonic()
        self._known: Optional[Dict[str, Any]] = None

    def is_alive(self) -> bool:
        """Is it there, or still starting (no pid file yet, for up to ten seconds)?"""
        if self._known is None:
            with contextlib.suppress(OSError, ValueError), open(self._run.pid, encoding="utf-8") as file:
                self._known = json.load(file)
        if self._known is None:
            return time.monotonic() - self._since < STARTING_S
        return bool(process.start_time(self._known["pid"]) == self._known["start_time"])

    def lost_its_files(self) -> bool:
        """The run's directory is gone, or the journal, which is there before the pid file."""
        return not os.path.isdir(self._run.path) or (self._known is not None and not os.path.exists(self._run.events))
