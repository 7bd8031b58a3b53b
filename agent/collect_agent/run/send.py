"""Sending the results of a run: a header, then the bytes of its files one after the other; again for what comes later.

An archive that is packed is sent while it is still being read back; the log follows when the run has ended. The reader
knows every length and digest, so it never has to trust an end of stream; after it has verified them it answers `ok` on
stdin and the run directory is removed. Any other answer, or none, keeps it.

A reader whose file is our stdout can have the bytes alone before that (`pour`), and goes on where they ended.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Any, Dict, List

from .. import events, troubles
from .follow import follow
from .rundir import RunDir

BLOCK = 256 * 1024


def send(run: RunDir, offset: int = 0) -> int:
    """Write the files of the run to stdout, from byte `offset` of their concatenation."""
    told = _told(run)
    if told["stage"] != "end":
        offset = _write(run, told["files"], offset)
        if follow(run, told["seq"]):
            return 1
        told = _told(run)
    elif "files" not in told:
        sys.stdout.write(events.on_wire(told))
    if "files" not in told:
        return 1  # the reader knows how it ended
    _write(run, told["files"], offset)
    if sys.stdin.readline().strip() == "ok":
        shutil.rmtree(run.path)
    return 0


def pour(run: RunDir, offset: int) -> int:
    """Write the rest of the file that byte `offset` is in to stdout, and nothing else, after a line on stdin.

    By that the reader says that its file is rid of what the login has printed there. 1 when there is nothing to write.
    """
    files = _told(run).get("files", [])
    if not sys.stdin.readline():
        return 1
    for entry in files:
        if offset < entry["size"]:
            _copy(run, entry, offset)
            sys.stdout.buffer.flush()
            return 0
        offset -= entry["size"]
    return 1


def _told(run: RunDir) -> events.Event:
    """The end of the run, or what has announced its archive."""
    told = [event for event in events.read(run.events) if event["stage"] == "end" or "files" in event]
    if told:
        return told[-1]
    return events.failed(troubles.FETCHED(run=run.id))


def _write(run: RunDir, files: List[Dict[str, Any]], offset: int) -> int:
    """Header and bytes; where in the concatenation they end. OSError when a file is shorter than it was."""
    out = sys.stdout.buffer
    out.write(events.on_wire({"stage": "send", "files": files, "offset": offset}).encode())
    begin = 0
    for entry in files:
        end = begin + entry["size"]
        if offset < end:
            _copy(run, entry, max(0, offset - begin))
        begin = end
    out.flush()
    return max(offset, begin)


def _copy(run: RunDir, entry: Dict[str, Any], begin: int) -> None:
    """A file of the run from byte `begin` on. OSError when it is shorter than it was."""
    touched, left = time.monotonic(), entry["size"] - begin
    with open(os.path.join(run.path, entry["name"]), "rb") as file:
        file.seek(begin)
        while left:
            block = file.read(min(BLOCK, left))
            if not block:
                raise OSError("{} is shorter than it was".format(file.name))
            sys.stdout.buffer.write(block)
            left -= len(block)
            if time.monotonic() - touched > events.HEARTBEAT_S:
                touched = time.monotonic()
                run.touch_followed()
