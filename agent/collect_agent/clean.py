"""Removing what is left on the host: ended runs, and agents that no run needs any more."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any, Dict, List

from . import elsewhere, listing, process
from .rundir import RunDir

UNTOUCHED_S = 3600.0  # an agent or a run that is being put there is younger


def clean(workdir: str, names: List[str], results: bool, agent: str) -> Dict[str, Any]:
    """Remove the runs called `names`, or all that have ended: those with a result only if `results`.

    A running one is never removed. `agent` is the file name of the agent to keep. {"removed": runs, "kept": {run: why},
    "freed": bytes}.
    """
    removed, kept, freed = [], {}, 0
    for entry in listing.runs(workdir):
        if names and entry["run"] not in names:
            continue
        why = _why_not(entry, results or bool(names))
        if why:
            kept[entry["run"]] = why
            continue
        run = RunDir(os.path.join(workdir, "runs", entry["run"]))
        left = process.end(run.id, grace_s=5.0)
        elsewhere.remove_copies(run)
        shutil.rmtree(run.path, ignore_errors=True)
        if left:
            kept[run.id] = "pids {} could not be ended".format(left)
        elif os.path.lexists(run.path):
            kept[run.id] = "{} cannot be removed".format(run.path)
        else:
            removed.append(run.id)
            freed += entry["bytes"]
    if not names:
        freed += _sweep(workdir, agent)
    return {"removed": removed, "kept": kept, "freed": freed}


def _why_not(entry: Dict[str, Any], results: bool) -> str:
    if entry["state"] == listing.RUNNING:
        return "it is running"
    if entry["state"] == listing.FINISHED and not results:
        return "its result was not fetched"
    return ""


def _sweep(workdir: str, agent: str) -> int:
    """Remove old agents, unless a run is there that may use one, and what killed programs of ours left; bytes freed."""
    old = [os.path.join(workdir, "runs", name) for name in _names(workdir, "runs") if name.startswith(".")]
    if not listing.runs(workdir):
        old += [os.path.join(workdir, "agent", name) for name in _names(workdir, "agent") if name != agent]
    freed = 0
    for path in old:
        status = os.lstat(path)
        if time.time() - max(status.st_mtime, status.st_ctime) < UNTOUCHED_S:
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
            freed += status.st_size
    return freed


def _names(workdir: str, folder: str) -> List[str]:
    path = os.path.join(workdir, folder)
    return os.listdir(path) if os.path.isdir(path) else []
