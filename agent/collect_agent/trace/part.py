"""A helper process: takes parts of a trace on its standard input, gives back their tallies."""

from __future__ import annotations

import gc
import json
import pickle
import struct
import sys
from typing import Any, Iterator, List, Optional

from .jsonlist import JOINTS, PIECE
from .stream import Damage
from .tally import Tally

LENGTH = struct.Struct("<I")
_decode = json.JSONDecoder().decode


def tally_of(part: bytes) -> Optional[Tally]:
    """Of events with a comma behind the last; None when they are no list of events."""
    tally = Tally()
    try:
        for events in _pieces(part.decode("utf-8")):
            tally.add(events)
    except (Damage, ValueError, RecursionError):
        return None
    return tally


def _pieces(text: str) -> Iterator[List[Any]]:
    """The events of `text`, some at a time. ValueError where it is no list of them.

    What reads as a joint of two events may stand in a string: then the rest is one piece.
    """
    start, end = 0, text.rindex(",")
    while start < end:
        cut = end
        if end - start > PIECE:
            cut = max(text.rfind(joint, start, start + PIECE) for joint in JOINTS) + 1 or end
        try:
            events = _decode("[%s]" % text[start:cut])
        except ValueError:
            if cut == end:
                raise
            cut = end
            events = _decode("[%s]" % text[start:cut])
        yield events
        start = cut + 1


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
