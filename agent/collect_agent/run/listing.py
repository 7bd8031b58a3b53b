"""What is on the host: every run in a work directory, and the state it is in."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional

from .. import events
from . import process
from .rundir import ID, RunDir

RUNNING, FINISHED, FAILED, ORPHANED, STOPPED = "running", "finished", "failed", "orphaned", "stopped"
UNKNOWN = "unknown"


def runs(workdir: str) -> List[Dict[str, Any]]:
    """One entry a run, the oldest first, as `describe` gives it."""
    return [describe(run) for run in ours(workdir)]


def ours(workdir: str) -> List[RunDir]:
    """The runs that we have made: anything else that lies there is somebody else's, and so is what a link leads to."""
    directory = os.path.join(os.path.realpath(workdir), "runs")
    names = os.listdir(directory) if os.path.isdir(directory) else []
    paths = [os.path.join(directory, name) for name in sorted(names) if ID.fullmatch(name)]
    found = [RunDir(path) for path in paths if os.path.isdir(path) and not os.path.islink(path)]
    return [run for run in found if any(map(os.path.lexists, (run.plan, run.stopped))) or not _readable(run.path)]


def describe(run: RunDir) -> Dict[str, Any]:
    """The state of a run as plain data; what its plan says is null where there is none.

    state      running, finished (its result waits to be fetched), failed (`message` says why), orphaned (its supervisor
               died), stopped (before it started), unknown (another account's, or damaged: `message` says why)
    stage      the last that it entered
    seconds    since it was started; `silent_s` since it was last followed
    bytes      that its directory holds
    processes  how many it has
    """
    try:
        return _described(run)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return _entry(run, UNKNOWN, {}, message="cannot be read: {}".format(error))


def _described(run: RunDir) -> Dict[str, Any]:
    if not os.path.exists(run.plan):
        return _entry(run, STOPPED if os.path.exists(run.stopped) else UNKNOWN, {}, message="")
    plan = run.read_plan()
    # In this order: a run that ends meanwhile has told so before its supervisor goes.
    alive = process.lives(run.pid)
    told = events.read(run.events)
    end = told[-1] if told and told[-1]["stage"] == "end" else {}
    stages = [event["stage"] for event in told if event["stage"] != "end"]
    state = (FINISHED if end["status"] == "done" else FAILED) if end else RUNNING if alive else ORPHANED
    return _entry(
        run,
        state,
        plan,
        stage=stages[-1] if stages else "",
        message=end.get("error", {}).get("message", ""),
        silent_s=_age(run.followed) if state == RUNNING else None,
        processes=0 if end and not end.get("left") else len(process.of_run(run.id)),
    )


def _entry(run: RunDir, state: str, plan: Dict[str, Any], **found: Any) -> Dict[str, Any]:
    return {
        "run": run.id,
        "state": state,
        **{key: plan.get(key) for key in ("host", "model", "expected", "orphan_s", "node")},
        "stage": "",
        "seconds": _age(run.plan),
        "silent_s": None,
        "bytes": sum(_size(os.path.join(folder, name)) for folder, _, names in os.walk(run.path) for name in names),
        "processes": 0,
        **found,
    }


def _readable(path: str) -> bool:
    return os.access(path, os.R_OK | os.X_OK)


def _age(path: str) -> Optional[int]:
    """Seconds since a file was changed; a clock that was set back makes them none."""
    try:
        return max(0, round(time.time() - os.stat(path).st_mtime))
    except OSError:
        return None


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
