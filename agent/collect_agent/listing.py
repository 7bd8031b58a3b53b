"""What is on the host: every run in a work directory, and the state it is in."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, List

from . import events, process
from .rundir import RunDir

RUNNING, FINISHED, FAILED, ORPHANED, STOPPED = "running", "finished", "failed", "orphaned", "stopped"


def runs(workdir: str) -> List[Dict[str, Any]]:
    """One entry a run, the oldest first, as `describe` gives it."""
    directory = os.path.join(workdir, "runs")
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return [describe(RunDir(os.path.join(directory, name))) for name in sorted(names) if not name.startswith(".")]


def describe(run: RunDir) -> Dict[str, Any]:
    """The state of a run as plain data; what its plan says is null where there is none.

    state      running, finished (its result waits to be fetched), failed (`message` says why), orphaned (its supervisor
               died), stopped (before it started)
    stage      the last that it entered
    seconds    since it was started; `silent_s` since it was last followed
    bytes      that its directory holds
    processes  how many it has
    """
    plan = _plan(run)
    told = [json.loads(line) for line in events.complete_lines(run.events, 0)]
    end = told[-1] if told and told[-1]["stage"] == "end" else {}
    state = _state(run, bool(plan), end)
    started = _modified(run.plan)
    return {
        "run": run.id,
        "state": state,
        **{key: plan.get(key) for key in ("host", "model", "expected", "orphan_s")},
        "stage": told[-2 if end else -1]["stage"] if len(told) > bool(end) else "",
        "message": end.get("error", {}).get("message", ""),
        "seconds": max(0, round(time.time() - started)) if started else None,
        "silent_s": max(0, round(time.time() - _modified(run.followed))) if state == RUNNING else None,
        "bytes": sum(_size(os.path.join(folder, name)) for folder, _, names in os.walk(run.path) for name in names),
        "processes": 0 if end and not end.get("left") else len(process.of_run(run.id)),
    }


def _state(run: RunDir, started: bool, end: Dict[str, Any]) -> str:
    if end:
        return FINISHED if end["status"] == "done" else FAILED
    if process.recorded(run.pid) is not None:
        return RUNNING
    return ORPHANED if started else STOPPED


def _plan(run: RunDir) -> Dict[str, Any]:
    try:
        return run.read_plan()
    except (OSError, ValueError):
        return {}


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
