"""A job that looks at a directory for when to profile itself (torch_npu's PROF_CONFIG_PATH): who it is, what it logs.

Every rank has a log there, `log/dp_<host>_<pid>_rank_<rank>.log` (-1: it knows no rank), after torch_npu 2.13.0.
"""

from __future__ import annotations

import glob
import os
import re
import socket
import time
from typing import Dict, Iterator, List, NamedTuple, Optional

from ..run import process

VARIABLE = "PROF_CONFIG_PATH"
_NAME = re.compile(r"dp_(.+)_(\d+)_rank_(-?\d+)\.log$")
_LINE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) (.*)")
_MARKS = {
    "timed": re.compile(r"poll interval time change"),  # is said in step TIMED_STEP
    "begun": re.compile(r"Start Dynamic Profiler at (\d+) step"),
    "ended": re.compile(r"Stop Dynamic Profiler at (\d+) step"),
}
TIMED_STEP = 11


class Mark(NamedTuple):
    """Something that a rank has logged: when (epoch seconds), in which of its steps."""

    what: str
    time: float
    step: int


class Rank:
    """One process of the job."""

    def __init__(self, pid: int, number: int, log: str) -> None:
        self.pid, self.number, self._log = pid, number, log
        self._started = process.start_time(pid)

    @property
    def alive(self) -> bool:
        return self._started is not None and process.start_time(self.pid) == self._started

    def marks(self) -> List[Mark]:
        """What it has logged so far, in order; of its older log as well, if it has begun another."""
        return [mark for path in (self._log + ".1", self._log) for mark in _marks(path)]

    def last(self, what: str, since: float = 0.0) -> Optional[Mark]:
        found = [mark for mark in self.marks() if mark.what == what and mark.time >= since]
        return found[-1] if found else None


def ranks(directory: str) -> Dict[int, Rank]:
    """The processes of this host that look at `directory`, by rank."""
    found = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(directory), "log", "dp_*.log"))):
        name = _NAME.match(os.path.basename(path))
        if name and name.group(1) == socket.gethostname() and _looks(int(name.group(2)), directory):
            number = max(0, int(name.group(3)))
            found[number] = Rank(int(name.group(2)), number, path)
    return found


def noticed(directory: str, since: float) -> bool:
    """Whether any process of the job has read the changed file since then (epoch seconds)."""
    for path in glob.glob(os.path.join(glob.escape(directory), "log", "*dp_*.log")):
        if any("load json success" in text and when >= since for when, text in _lines(path)):
            return True
    return False


def _looks(pid: int, directory: str) -> bool:
    """Whether the process `pid`, which may be another by now, has that directory in its environment."""
    variables = dict(entry.partition(b"=")[::2] for entry in process.environment(pid))
    try:
        told = os.fsdecode(variables.get(VARIABLE.encode(), b""))
        return bool(told) and os.path.samefile(os.path.join("/proc/{}/cwd".format(pid), told), directory)
    except OSError:
        return False


def _lines(path: str) -> Iterator["tuple[float, str]"]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                stamped = _LINE.match(line)
                if stamped:
                    whole = time.mktime(time.strptime(stamped.group(1), "%Y-%m-%d %H:%M:%S"))
                    yield whole + int(stamped.group(2)) / 1000, stamped.group(3)
    except OSError:
        return


def _marks(path: str) -> Iterator[Mark]:
    for when, text in _lines(path):
        for what, form in _MARKS.items():
            said = form.search(text)
            if said:
                yield Mark(what, when, int(said.group(1)) if form.groups else TIMED_STEP)
