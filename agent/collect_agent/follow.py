"""Following a run: its events to stdout from any point on, until it has ended or the reader has gone."""

from __future__ import annotations

import json
import os
import sys
import time

from . import events, process
from .failure import Failure
from .rundir import RunDir

POLL_S = (0.05, 0.5)  # while much happens, and while nothing does
HEARTBEAT_S = 5.0


def follow(run: RunDir, after: int = 0) -> int:
    """Copy the events with seq > `after` to stdout as they come; 0 when the `end` event was among them, else 1.

    A line with `heartbeat` goes out at least every five seconds, so that either side notices a dead connection, and
    the run's orphan rule is told that somebody is there.
    """
    offset, last_beat, pause = 0, 0.0, POLL_S[0]
    while True:
        alive = _supervised(run)
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
        if not alive:
            # The journal was read after the supervisor was seen dead: nothing more can come.
            lost = Failure("RunFailed", "the supervisor of the run died", "read " + run.log)
            sys.stdout.write(events.on_wire(events.failed(lost)))
            sys.stdout.flush()
            return 1
        if time.monotonic() - last_beat >= HEARTBEAT_S:
            last_beat = time.monotonic()
            run.touch_followed()
            sys.stdout.write(events.on_wire({"stage": "heartbeat"}))
        sys.stdout.flush()
        time.sleep(pause)


def _supervised(run: RunDir) -> bool:
    """Is the supervisor alive, or still starting (no pid file yet, for up to ten seconds)?"""
    try:
        with open(run.pid, encoding="utf-8") as file:
            supervisor = json.load(file)
    except (OSError, ValueError):
        return time.time() - os.stat(run.plan).st_mtime < 10
    return bool(process.start_time(supervisor["pid"]) == supervisor["start_time"])
