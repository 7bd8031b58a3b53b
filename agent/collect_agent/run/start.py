"""Starting a run: its supervisor leaves the SSH session, then the run appears, whole or not at all.

Starting is safe to repeat: who starts a run that is there already only follows it, so a connection that broke while
the request was on its way costs nothing and starts nothing twice.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import sys
from typing import Any, Dict, NoReturn

from ..failure import Failure
from ..troubles import NO_RUN_DIRECTORY
from . import process
from .rundir import RunDir


def start(plan: Dict[str, Any]) -> RunDir:
    """Create the run of `plan` and detach its supervisor, unless it was started before.

    Failure when the directory cannot be made, or the run was stopped before it could start.
    """
    os.umask(0o027)
    run = RunDir(os.path.join(plan["workdir"], "runs", plan["run_id"]))
    staged = RunDir(os.path.join(os.path.dirname(run.path), ".{}.{}".format(run.id, os.getpid())))
    try:
        staged.create(plan)
    except OSError as error:
        shutil.rmtree(staged.path, ignore_errors=True)
        raise _unmade(run, error) from error
    readable, writable = os.pipe()
    if os.fork():
        os.close(writable)
        os.wait()
        with os.fdopen(readable) as told:
            code = int(told.read() or errno.EIO)
    else:
        os.setsid()
        if os.fork():
            os._exit(0)
        _become_supervisor(staged, run, writable)
    if code and code not in (errno.ENOTEMPTY, errno.EEXIST):
        raise _unmade(run, OSError(code, os.strerror(code)))
    if not os.path.exists(run.plan):
        raise Failure("Interrupted", "run {} was stopped before it started".format(run.id))
    return run


def _unmade(run: RunDir, error: OSError) -> Failure:
    return NO_RUN_DIRECTORY(path=run.path, why=error.strerror)


def _become_supervisor(staged: RunDir, run: RunDir, told: int) -> NoReturn:
    """Publish the run and supervise it: nothing of the session stays open, every descendant carries the run's id.

    Writes to `told` 0, or the errno that kept the run from being published.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # until it can be answered: see `supervise`
    try:
        with open(staged.pid, "w", encoding="utf-8") as file:
            json.dump(process.identity(os.getpid()), file)
        os.rename(staged.path, run.path)  # onto a directory that is not empty: refused
        log = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    except OSError as error:
        shutil.rmtree(staged.path, ignore_errors=True)
        os.write(told, str(error.errno).encode())
        os._exit(1)
    with contextlib.suppress(BrokenPipeError):  # who started us has gone; the run is there all the same
        os.write(told, b"0")
    os.environ[process.RUN_VARIABLE] = run.id
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    agent = [sys.executable, "-I", "-S", sys.argv[0]]
    os.execv(sys.executable, [*agent, "supervise", run.path])  # noqa: S606 - no shell is wanted
