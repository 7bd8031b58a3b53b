"""torch_npu's parser in a process of its own, which it never refuses, with a time limit and an eye on it."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from typing import Callable, Dict, List, NamedTuple, Optional

from ..ending import how_ended
from ..run.runlog import without_cursor
from ..validate.messages import explain
from . import parsed

TICK_S, BEAT_S = 0.5, 5.0
LIMIT_S = 600.0
BYTES_A_S = 1e6  # of raw data, beyond that
OTHERS_MAY_WRITE = 0o022
# Releases from before the export could be chosen know no such parameter.
_ANALYSE = """
import inspect, sys
from torch_npu.profiler.profiler import analyse
export = sys.argv[2].split(",")
known = "export_type" in inspect.signature(analyse).parameters
analyse(sys.argv[1], **({"export_type": export if export[1:] else export[0]} if known else {}))
"""
# "[date time] [LEVEL] [pid] profiler.py: text" (torch_npu 2.13.0), and its two ways to say that a parser failed.
COMPLAINT = re.compile(r"\[ERROR\] \[\d+\] profiler\.py: (.*)")
_FAILED = re.compile(r"Task \[?\w+\]? (?:run failed|has not run successfully)")
# Messages that tell of what no other place can help against.
_NOT_THE_PLACE = {"msprof-missing", "no-device-data", "no-framework-data", "module-missing", "api-disabled"}
_NOT_THE_PLACE_EITHER = re.compile(r"inconsistent permissions|does not support export db")


class Ended(NamedTuple):
    """How a parse ended. `problem`: "" when it complained of nothing. `movable`: whether another place may help."""

    problem: str = ""
    movable: bool = False


def limit_s(directory: str) -> float:
    """Seconds that a parse of `directory` may take."""
    size = sum(
        os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(directory) for name in names
    )
    return LIMIT_S + size / BYTES_A_S


def close_to_others(directory: str) -> None:
    """Take from others the right to write to our own raw data: the parser refuses what they could have changed."""
    for name in parsed.raw(directory):
        for folder, _, names in os.walk(os.path.join(directory, name)):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                status = os.lstat(path)
                mine = status.st_uid == os.geteuid() and not os.path.islink(path)
                if mine and status.st_mode & OTHERS_MAY_WRITE:
                    os.chmod(path, status.st_mode & ~OTHERS_MAY_WRITE & 0o7777)


def parse(
    directory: str,
    export: List[str],
    environment: Dict[str, str],
    work: str,
    limit: float,
    beat: Callable[[float], None],
) -> Ended:
    """Parse the profile in `directory` anew; what is there of an earlier parse goes. `work`: its working directory.

    What the parser prints goes to our stdout, but for its rotating cursor. `beat` gets the seconds so far, about every
    five. Whatever happens, none of its processes is left.
    """
    return parse_all({directory: limit}, 1, export, environment, work, beat)[directory]


def parse_all(
    limits: Dict[str, float],
    at_once: int,
    export: List[str],
    environment: Dict[str, str],
    work: str,
    beat: Callable[[float], None],
) -> Dict[str, Ended]:
    """The same of several directories, each with its limit in seconds, so many of them at once."""
    waiting, running, ended = list(limits), [], {}  # type: List[str], List[_Parser], Dict[str, Ended]
    begun = told = time.monotonic()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                directory = waiting.pop(0)
                running.append(_Parser(directory, limits[directory], export, environment, work))
            select.select([parser.pipe for parser in running], [], [], TICK_S)
            for parser in list(running):
                how = parser.hear()
                if how is not None:
                    running.remove(parser)
                    parser.close()
                    ended[parser.directory] = how
            now = time.monotonic()
            if now - told >= BEAT_S:
                told = now
                beat(now - begun)
    finally:
        for parser in running:
            parser.close()
    return ended


class _Parser:
    """One parser at work."""

    def __init__(self, directory: str, limit: float, export: List[str], environment: Dict[str, str], work: str) -> None:
        self.directory, self._limit, self._begun = directory, limit, time.monotonic()
        self._rest, self._said = b"", []  # type: bytes, List[str]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ANALYSE, directory, ",".join(export)],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None  # noqa: S101
        self.pipe = self._process.stdout

    def hear(self) -> Optional[Ended]:
        """Pass on what it has printed since; how it ended, once it has, or has taken too long."""
        ended = self._process.poll() is not None
        if time.monotonic() - self._begun > self._limit:
            return Ended("the parser had not ended after {:.0f} s".format(self._limit), movable=True)
        while select.select([self.pipe], [], [], 0)[0]:
            data = os.read(self.pipe.fileno(), 1 << 16)
            *lines, self._rest = without_cursor(self._rest + data).split(b"\n")
            if not data and self._rest:
                lines, self._rest = [self._rest], b""
            for line in lines:
                os.write(1, line + b"\n")
            self._said += [line.decode("utf-8", "replace") for line in lines]
            if not data:
                self._process.wait()
                ended = True
                break
        return judged(self._process.returncode, self._said) if ended else None

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # a parser that was killed leaves its children behind
        self._process.wait()
        self.pipe.close()


def judged(status: int, said: List[str]) -> Ended:
    """What the end of a parser means. Its exit status is 0 after almost every failure, so its words count. Pure."""
    if status == -signal.SIGKILL or status == 128 + signal.SIGKILL:
        return Ended("the parser was killed (SIGKILL): most likely the host ran out of memory")
    complaints = [match.group(1).strip() for match in map(COMPLAINT.search, said) if match]
    complaints += [line.strip() for line in said if _FAILED.search(line)]  # in some releases without a level
    serious = [line for line in complaints if all(f.message.severity == "error" for f in explain([line]))]
    first = next((line for line in serious if not _FAILED.search(line)), serious[0] if serious else "")
    if status < 0:
        problem = "the parser " + how_ended(status)
    elif first:
        problem = "the parser says: {}".format(first)
    elif status:
        problem = "the parser {}: {}".format(how_ended(status), said[-1].strip() if said else "")
    else:
        return Ended()
    hopeless = any(found.message.id in _NOT_THE_PLACE for found in explain(said))
    return Ended(problem, movable=not hopeless and not any(map(_NOT_THE_PLACE_EITHER.search, said)))
