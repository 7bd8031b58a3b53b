"""Whose the files of a run are that stay on a directory of the host, mounted into the container where we are root.

While it goes on they are root's: the profiler's parser wants them to be root's or its own user's (torch_npu 2.13.0).
"""

from __future__ import annotations

import contextlib
import os
from typing import List, Optional, Tuple

from ..run.rundir import RunDir


def give_back(run: RunDir) -> None:
    """Give what we made on a mount to the user that the mount belongs to; nothing where that is root, or we are not,
    or outside of containers."""
    workdir = os.path.dirname(os.path.dirname(run.path))
    heir = _heir(workdir) if os.geteuid() == 0 and _is_boxed(run) else None
    if heir is None:
        return
    for path in (workdir, os.path.dirname(run.path), os.path.join(workdir, "agent"), run.path):
        _give(path, heir)
    for top in (os.path.join(workdir, "agent"), run.path):
        for folder, folders, names in os.walk(top):
            for name in folders + names:
                _give(os.path.join(folder, name), heir)


def _is_boxed(run: RunDir) -> bool:
    try:
        return run.read_plan()["container"] is not None
    except (OSError, ValueError, KeyError):  # it was stopped before it started
        return False


def _give(path: str, heir: Tuple[int, int]) -> None:
    with contextlib.suppress(OSError):  # a network file system that knows no root, or it is gone
        if os.lstat(path).st_uid == 0:
            os.chown(path, heir[0], heir[1], follow_symlinks=False)


def _heir(path: str) -> Optional[Tuple[int, int]]:
    """(uid, gid) of the next directory upwards, up to its mount point, that is not root's."""
    for folder in _upwards(path):
        status = os.stat(folder)
        if status.st_uid:
            return status.st_uid, status.st_gid
        if os.path.ismount(folder):
            break
    return None


def _upwards(path: str) -> List[str]:
    folders = [path]
    while folders[-1] != os.path.dirname(folders[-1]):
        folders.append(os.path.dirname(folders[-1]))
    return folders
