"""What the run wrote: find it, have it parsed if the profiler did not, and list what goes into the archive."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any, Callable, Dict, List

from . import pack
from .failure import Failure
from .rundir import RunDir

OUTPUT = "ASCEND_PROFILER_OUTPUT"
RAW_PREFIXES = ("PROF_", "FRAMEWORK")
# torch_npu prints its messages to stdout as "[date time] [LEVEL] [pid] profiler.py: text" (torch_npu 2.13.0).
_MESSAGE = re.compile(r"\[(?:ERROR|WARNING)\] \[\d+\] profiler\.py: (.*)")
_ANALYSE = "import sys; from torch_npu.profiler.profiler import analyse; analyse(sys.argv[1], export_type=sys.argv[2])"


def harvest(
    run: RunDir, plan: Dict[str, Any], environment: Dict[str, str], emit: Callable[..., Any]
) -> Dict[str, List[str]]:
    """Directories of the profiles of every expected phase, `{phase: [path of a *_ascend_pt directory]}`.

    A directory with raw data and no parsed output is parsed here, in a process of its own with the environment of the
    program that wrote it. Failure when a phase left nothing behind.
    """
    found = {}
    for phase in plan["expected"]["steps"]:
        directories = _profiles(os.path.join(run.profile, phase))
        if not directories:
            said = messages(run.log)
            raise Failure(
                "RunFailed",
                "the profiler left no data for {}{}".format(phase, ": " + said[-1] if said else ""),
                "read {}".format(run.log),
            )
        for directory in directories:
            if not os.path.isdir(os.path.join(directory, OUTPUT)):
                emit(stage="harvest", parse="offline", directory=os.path.basename(directory))
                _analyse(run, directory, plan["expected"]["export"], environment)
        found[phase] = directories
    return found


def members(found: Dict[str, List[str]]) -> List[pack.Member]:
    """(name in the archive, path) of every file to pack; directories keep the names that torch_npu gave them."""
    result: List[pack.Member] = []
    for phase, directories in found.items():
        for directory in directories:
            name = "/".join(("profile_l1", phase, os.path.basename(directory)))
            result += pack.tree(directory, name, lambda inside: not inside.startswith(RAW_PREFIXES))
    return result


def messages(log: str) -> List[str]:
    """What torch_npu.profiler complained about, in order: the run's log is the only place where it is said."""
    with open(log, encoding="utf-8", errors="replace") as file:
        return [match.group(1).strip() for match in map(_MESSAGE.search, file) if match]


def _profiles(directory: str) -> List[str]:
    if not os.path.isdir(directory):
        return []
    return sorted(entry.path for entry in os.scandir(directory) if entry.name.endswith("_ascend_pt"))


def _analyse(run: RunDir, directory: str, export: List[str], environment: Dict[str, str]) -> None:
    for export_type in export:
        subprocess.run(
            [sys.executable, "-c", _ANALYSE, directory, export_type],
            cwd=run.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            check=False,  # torch_npu's exit status says nothing; the validation looks at what is there
        )
