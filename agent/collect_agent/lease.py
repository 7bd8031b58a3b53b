"""One run a device: an advisory lock that a crash cannot leave behind.

The lock is an flock on a file shared by all users of the host. It is held by the supervisor and inherited by the
worker, so it is gone exactly when the last process that could use the device is.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
from typing import Any, Dict, List, Optional, Tuple

DIRECTORY_VARIABLE = "COLLECT_REMOTE_LEASE_DIR"
DEFAULT_DIRECTORY = "/tmp/collect_remote_leases"  # noqa: S108 - shared by all users on purpose


class Lease:
    """A device held for this process and those that inherit `descriptor`."""

    def __init__(self, device: Dict[str, Any], descriptor: int) -> None:
        self.device = device
        self.descriptor = descriptor


def take(candidates: List[Dict[str, Any]], run_id: str) -> Tuple[Optional[Lease], List[str]]:
    """Lock the first device of `candidates` (each with its `logic` id) that nobody else holds.

    Returns the lease, or None and for every device who holds it, in words. OSError when the lease directory can be
    neither made nor used.
    """
    directory = os.environ.get(DIRECTORY_VARIABLE, DEFAULT_DIRECTORY)
    _shared_directory(directory)
    holders = []
    for device in candidates:
        path = os.path.join(directory, "npu{}.lock".format(device["logic"]))
        descriptor = _open_shared(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holders.append("{} is leased by {}".format(device["label"], _holder(descriptor)))
            os.close(descriptor)
            continue
        note = {"run": run_id, "pid": os.getpid(), "user": pwd.getpwuid(os.getuid()).pw_name}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(note).encode(), 0)
        return Lease(device, descriptor), holders
    return None, holders


def _shared_directory(directory: str) -> None:
    old = os.umask(0)
    try:
        os.makedirs(directory, mode=0o1777, exist_ok=True)
    finally:
        os.umask(old)


def _open_shared(path: str) -> int:
    """Open for the lock alone: another user's file may not be ours to write, and a link is never followed."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    old = os.umask(0)
    try:
        return os.open(path, flags | os.O_CREAT, 0o666)
    finally:
        os.umask(old)


def _holder(descriptor: int) -> str:
    try:
        note = json.loads(os.pread(descriptor, 4096, 0))
        return "run {run} of {user} (pid {pid})".format(**note)
    except (ValueError, KeyError, OSError):
        return "another run"
