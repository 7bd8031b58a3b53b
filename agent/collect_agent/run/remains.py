"""What a run leaves in its directory: nothing big that is worth nothing."""

from __future__ import annotations

import contextlib
import os
import shutil

from ..failure import Failure
from ..troubles import REMOVED
from .rundir import RunDir


def removed(run: RunDir) -> Failure:
    """What is told of a run whose directory is gone."""
    return REMOVED(path=run.path)


def kept(run: RunDir) -> str:
    """Where the data of a run that failed are, in words; "" when it has none."""
    there = any(names for _, _, names in os.walk(run.profile))
    return "; the data are kept on the host in " + run.profile if there else ""


def trim(run: RunDir) -> None:
    """Keep only plan, events and log of a run that has no profile data, and what tells whether its supervisor lives."""
    if any(names for _, _, names in os.walk(run.profile)):
        return
    with contextlib.suppress(OSError), os.scandir(run.path) as entries:
        for entry in entries:
            if entry.path in (run.plan, run.events, run.log, run.pid):
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)
