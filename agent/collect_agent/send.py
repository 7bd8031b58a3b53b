"""Sending the results of a finished run: a header, then the bytes of its files one after the other.

The reader knows every length and digest, so it never has to trust an end of stream; after it has verified them it
answers `ok` on stdin and the run directory is removed. Any other answer, or none, keeps it.
"""

from __future__ import annotations

import os
import shutil
import sys

from . import events
from .failure import Failure
from .rundir import RunDir

BLOCK = 256 * 1024


def send(run: RunDir, offset: int = 0) -> int:
    """Write the files of the `end` event to stdout, from byte `offset` of their concatenation."""
    out = sys.stdout.buffer
    if not os.path.exists(run.events):
        gone = Failure("TransferError", "somebody else has fetched the result of run {}".format(run.id), "ask who did")
        out.write(events.on_wire(events.failed(gone)).encode())
        return 1
    files = events.read(run.events)[-1]["files"]
    out.write(events.on_wire({"stage": "send", "files": files, "offset": offset}).encode())
    for entry in files:
        if offset >= entry["size"]:
            offset -= entry["size"]
            continue
        with open(os.path.join(run.path, entry["name"]), "rb") as file:
            file.seek(offset)
            left = entry["size"] - offset
            while left:
                block = file.read(min(BLOCK, left))
                if not block:
                    sys.stderr.write("{} is shorter than it was\n".format(entry["name"]))
                    return 1
                out.write(block)
                left -= len(block)
        offset = 0
    out.flush()
    if sys.stdin.readline().strip() == "ok":
        shutil.rmtree(run.path)
    return 0
