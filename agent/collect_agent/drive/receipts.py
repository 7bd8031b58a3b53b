"""What the shim writes: one file of JSON lines a process, read as they grow."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import stat
from typing import Any, Dict, Iterator, List, Tuple

ENDING = ".jsonl"
NAME = re.compile(r"[0-9]{1,10}\.jsonl")
MOST_BYTES = 1 << 24  # at once
Line = Dict[str, Any]


class Receipts:
    """The receipts in a directory. `of`: the lines of every process so far, by pid, in order.

    The program can do there what it likes: what is gone is gone, and what is no file of lines is passed over.
    """

    def __init__(self, directory: str) -> None:
        self.of: Dict[int, List[Line]] = {}
        self._directory = directory
        self._read: Dict[Tuple[int, int], int] = {}  # by pid and inode: a file that was removed is made anew

    def news(self) -> List[Line]:
        """The lines since the last call, each with its `pid`, in the order of their times."""
        found = [dict(line, pid=pid) for pid in self._pids() for line in self._more(pid)]
        for line in found:
            self.of.setdefault(line["pid"], []).append(line)
        return sorted(found, key=_time)

    def all(self) -> List[Line]:
        return sorted((line for lines in self.of.values() for line in lines), key=_time)

    def _pids(self) -> List[int]:
        try:
            names = os.listdir(self._directory)
        except OSError:
            return []
        return sorted(int(name[: -len(ENDING)]) for name in names if NAME.fullmatch(name))

    def _more(self, pid: int) -> Iterator[Line]:
        whole = b""
        with contextlib.suppress(OSError):
            descriptor = os.open(os.path.join(self._directory, str(pid) + ENDING), os.O_RDONLY | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:
                there = os.fstat(descriptor)
                if stat.S_ISREG(there.st_mode):
                    key = pid, there.st_ino
                    file.seek(self._read.get(key, 0))
                    whole, end, _ = file.read(MOST_BYTES).rpartition(b"\n")
                    self._read[key] = self._read.get(key, 0) + len(whole + end)
        return filter(None, map(_line, whole.split(b"\n")))


def _time(line: Line) -> float:
    return float(line["time"])


def _line(text: bytes) -> Line:
    """A receipt line; none, {}, for what has not its form: a user's program can write there too."""
    try:
        line = json.loads(text.decode(), parse_constant=_refused)
        good = isinstance(line, dict) and isinstance(line.get("say"), str) and type(line.get("time")) in (int, float)
        return line if good and math.isfinite(line["time"]) else {}
    except (ValueError, OverflowError, RecursionError):
        return {}


def _refused(constant: str) -> float:
    raise ValueError(constant)  # NaN and Infinity, which JSON does not have
