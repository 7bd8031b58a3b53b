"""Starting a run: its directory, then a supervisor that no longer belongs to the SSH session."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, Dict, NoReturn

from . import process
from .failure import Failure
from .rundir import RunDir


def start(plan: Dict[str, Any]) -> RunDir:
    """Create the run of `plan` and detach its supervisor; Failure when the directory cannot be made."""
    os.umask(0o027)
    run = RunDir(os.path.join(plan["workdir"], "runs", plan["run_id"]))
    try:
        run.create(plan)
    except FileExistsError as error:
        raise Failure("Interrupted", "run {} was stopped before it started".format(run.id)) from error
    except OSError as error:
        shutil.rmtree(run.path, ignore_errors=True)
        raise Failure(
            "StorageError",
            "cannot make the run directory {}: {}".format(run.path, error.strerror),
            "free some space there, or name another directory with `workdir` in the inventory",
        ) from error
    if os.fork():
        os.wait()
    else:
        os.setsid()
        if os.fork():
            os._exit(0)
        _become_supervisor(run)
    return run


def _become_supervisor(run: RunDir) -> NoReturn:
    """Nothing of the session stays open, and every descendant carries the run's id."""
    os.environ[process.RUN_VARIABLE] = run.id
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    agent = [sys.executable, "-I", "-S", sys.argv[0]]
    os.execv(sys.executable, [*agent, "supervise", run.path])  # noqa: S606 - no shell is wanted
