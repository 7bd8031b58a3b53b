"""Following a run: its events to stdout from any point on, until it has ended or the reader has gone."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from typing import BinaryIO

from .. import events
from . import process
from .rundir import RunDir

POLL_S = (0.01, 0.5)  # while much happens, and while nothing does
REMOVAL_S = 2.0  # what removes a run may be of the run itself: ended on its way, it would leave half of it


def follow(run: RunDir, after: int = 0) -> int:
    """Copy the events with seq > `after` to stdout as they come; 0 when the `end` event was among them, else 1.

    A line with `heartbeat` goes out at least every five seconds, so that either side notices a dead connection, and
    the run's orphan rule is told that somebody is there. A run that cannot tell its end any more is ended here. Whoever
    reads holds our stdin open: its end means that nobody does, which a container's engine says in no other way.
    """
    try:
        # Open from here on: its end can be read although somebody else has fetched the result, and removed the run.
        with open(run.events, "rb") as journal:
            return _follow(run, journal, after)
    except FileNotFoundError:
        from . import given_up

        return given_up.fetched(run)


def _follow(run: RunDir, journal: BinaryIO, after: int) -> int:
    offset, last_beat, pause = 0, 0.0, POLL_S[0]
    while True:
        alive = process.lives(run.pid)
        pause = min(POLL_S[1], pause * 1.2)
        for line in events.more_lines(journal, offset):
            offset += len(line.encode())
            pause = POLL_S[0]
            event = events.decode(line)
            if event.get("seq", 0) > after:
                sys.stdout.write(events.on_wire(event))
            if event.get("stage") == "end":
                sys.stdout.flush()
                return 0
        if not os.path.exists(run.events):
            from . import given_up

            _let_it_go(run)
            return given_up.removed(run)
        if not alive:
            # The journal was read after the supervisor was seen dead: nothing more can come.
            from . import given_up

            return given_up.died(run)
        if time.monotonic() - last_beat >= events.HEARTBEAT_S:
            last_beat = time.monotonic()
            with contextlib.suppress(FileNotFoundError):  # removed a moment ago: the next look will tell
                run.touch_followed()
            sys.stdout.write(events.on_wire({"stage": "heartbeat"}))
        sys.stdout.flush()
        if _reader_has_gone(pause):
            return 1


def _reader_has_gone(within_s: float) -> bool:
    readable, _, _ = select.select([0], [], [], within_s)
    return bool(readable) and not os.read(0, 4096)


def _let_it_go(run: RunDir) -> None:
    until = time.monotonic() + REMOVAL_S
    while os.path.exists(run.path) and time.monotonic() < until:
        time.sleep(POLL_S[0])
