"""A helper process: takes parts of a trace on its standard input, gives back their tallies."""

from __future__ import annotations

import gc
import io
import pickle
import struct
import sys
from typing import Optional

from .jsonlist import batches
from .stream import Damage
from .tally import Tally

LENGTH = struct.Struct("<I")


def tally_of(part: bytes) -> Optional[Tally]:
    """Of events with a comma behind the last; None when they are no list of events."""
    tally = Tally()
    try:
        for events in batches(io.BytesIO(b"[" + part[: part.rindex(b",")] + b"]")):  # type: ignore[arg-type]
            tally.add(events)
    except Damage:
        return None
    return tally


def main() -> None:
    """Every part comes with its length in front of it, and so does every answer."""
    gc.disable()  # events hold no cycles, and a collection looks at all of them
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while True:
        head = source.read(LENGTH.size)
        if len(head) < LENGTH.size:
            return
        answer = pickle.dumps(tally_of(source.read(*LENGTH.unpack(head))))
        target.write(LENGTH.pack(len(answer)) + answer)
        target.flush()
