"""What a run leaves in its directory: the log whatever the model did to it, and nothing big that is worth nothing."""

from __future__ import annotations

import contextlib
import os
import re
import shutil

from ..failure import Failure
from ..troubles import REMOVED
from .rundir import RunDir

BLOCK = 1 << 20
_CURSOR = re.compile(rb"[^\n]?\x08")


def removed(run: RunDir) -> Failure:
    """What is told of a run whose directory is gone."""
    return REMOVED(path=run.path)


def restore_log(run: RunDir) -> None:
    """Write the log again when it was removed: it is still open as our stdout. Later output goes to the new file."""
    if os.path.exists(run.log):
        return
    with open("/proc/self/fd/1", "rb") as lost, open(run.log, "ab") as log:
        shutil.copyfileobj(lost, log)
        log.flush()
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)


def without_cursor(text: bytes) -> bytes:
    """What was printed, without what a backspace behind it has taken away."""
    return _CURSOR.sub(b"", text)


def tidy_log(run: RunDir) -> None:
    """Take out of the log, in place, what backspaces have taken back: torch_npu's parser turns a cursor in it."""
    with open(run.log, "r+b") as log:
        read = written = 0
        held = b""
        while True:
            log.seek(read)
            data = log.read(BLOCK)
            read += len(data)
            text = without_cursor(held + data)
            keep = len(text) - bool(data)  # the next block may take back the last letter
            log.seek(written)
            written += log.write(text[:keep])
            held = text[keep:]
            if not data:
                break
        log.truncate()


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
