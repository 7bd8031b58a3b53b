"""Removing what is left on the host: ended runs, and agents that no run needs any more. Nothing that is not ours."""

from __future__ import annotations

import os
import re
import shutil
import time
from typing import Any, Dict, List

from ..output import elsewhere
from . import listing, process, putback
from .rundir import ID, RunDir

UNTOUCHED_S = 3600.0  # an agent or a run that is being put there is younger
AGENTS = re.compile(r"collect_agent-[0-9a-f]{16}\.pyz(\.[0-9]+)?")
STAGED = re.compile(r"\.{}(\.stopped)?\.[0-9]+".format(ID.pattern))


def clean(workdir: str, names: List[str], results: bool, agent: str) -> Dict[str, Any]:
    """Remove the runs called `names`, or all that have ended: those with a result only if `results`.

    A running one is never removed. `agent` is the file name of the agent to keep. {"removed": runs, "kept": {run: why},
    "freed": bytes}.
    """
    removed, kept, freed = [], {}, 0
    for run in listing.ours(workdir):
        if names and run.id not in names:
            continue
        entry = listing.describe(run)
        why = _why_not(entry, results or bool(names)) or _remove(run)
        if why:
            kept[run.id] = why
        else:
            removed.append(run.id)
            freed += entry["bytes"]
    if not names:
        freed += _sweep(os.path.realpath(workdir), agent)
    return {"removed": removed, "kept": kept, "freed": freed}


def _why_not(entry: Dict[str, Any], results: bool) -> str:
    if entry["state"] == listing.RUNNING:
        return "it is running"
    if entry["state"] == listing.UNKNOWN:
        return entry["message"] or "it has no plan"
    if entry["state"] == listing.FINISHED and not results:
        return "its result was not fetched"
    return ""


def _remove(run: RunDir) -> str:
    """Why the run is still there, if it is."""
    left = process.end(run.id, grace_s=5.0)
    if left:
        return "pids {} could not be ended".format(left)
    elsewhere.remove_copies(run)
    putback.put_back(run)
    shutil.rmtree(run.path, ignore_errors=True)
    return "{} cannot be removed".format(run.path) if os.path.lexists(run.path) else ""


def _sweep(workdir: str, agent: str) -> int:
    """Remove old agents, unless a run is there that may use one, and what killed programs of ours left; bytes freed."""
    old = _named(os.path.join(workdir, "runs"), STAGED)
    if not listing.ours(workdir):
        old += [path for path in _named(os.path.join(workdir, "agent"), AGENTS) if os.path.basename(path) != agent]
    freed = 0
    for path in old:
        status = os.lstat(path)
        if time.time() - max(status.st_mtime, status.st_ctime) < UNTOUCHED_S or os.path.islink(path):
            continue
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
            freed += status.st_size
    return freed


def _named(folder: str, pattern: "re.Pattern[str]") -> List[str]:
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [os.path.join(folder, name) for name in names if pattern.fullmatch(name)]
