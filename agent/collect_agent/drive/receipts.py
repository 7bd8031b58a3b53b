"""What the shim writes: one file of JSON lines a process, read as they grow."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterator, List

ENDING = ".jsonl"
Line = Dict[str, Any]


class Receipts:
    """The receipts in a directory. `of`: the lines of every process so far, by pid, in order."""

    def __init__(self, directory: str) -> None:
        self.of: Dict[int, List[Line]] = {}
        self._directory = directory
        self._read: Dict[int, int] = {}

    def news(self) -> List[Line]:
        """The lines since the last call, each with its `pid`, in the order of their times."""
        found = [dict(line, pid=pid) for pid in self._pids() for line in self._more(pid)]
        for line in found:
            self.of.setdefault(line["pid"], []).append(line)
        return sorted(found, key=_time)

    def all(self) -> List[Line]:
        return sorted((line for lines in self.of.values() for line in lines), key=_time)

    def _pids(self) -> List[int]:
        names = (name[: -len(ENDING)] for name in os.listdir(self._directory) if name.endswith(ENDING))
        return sorted(int(name) for name in names if name.isdigit())

    def _more(self, pid: int) -> Iterator[Line]:
        with open(os.path.join(self._directory, str(pid) + ENDING), "rb") as file:
            file.seek(self._read.get(pid, 0))
            whole, end, _ = file.read().rpartition(b"\n")
        self._read[pid] = self._read.get(pid, 0) + len(whole + end)
        return filter(None, map(_line, whole.split(b"\n")))


def _time(line: Line) -> float:
    return float(line["time"])


def _line(text: bytes) -> Line:
    """A receipt line; none, {}, for what has not its form: a user's program can write there too."""
    try:
        line = json.loads(text.decode())
    except (ValueError, RecursionError):
        return {}
    good = isinstance(line, dict) and isinstance(line.get("say"), str) and type(line.get("time")) in (int, float)
    return line if good else {}
