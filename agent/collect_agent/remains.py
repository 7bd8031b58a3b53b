"""What a run leaves in its directory: the log whatever the model did to it, and nothing big that is worth nothing."""

from __future__ import annotations

import contextlib
import os
import shutil

from .failure import Failure
from .rundir import RunDir


def removed(run: RunDir) -> Failure:
    """What is told of a run whose directory is gone."""
    return Failure(
        "RunFailed",
        "the directory of the run was removed while it was going on: {}".format(run.path),
        "see that neither the model nor a clean-up job on the host removes it, and run it again",
    )


def restore_log(run: RunDir) -> None:
    """Write the log again when it was removed: it is still open as our stdout. Later output goes to the new file."""
    if os.path.exists(run.log):
        return
    with open("/proc/self/fd/1", "rb") as lost, open(run.log, "ab") as log:
        shutil.copyfileobj(lost, log)
        log.flush()
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)


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
