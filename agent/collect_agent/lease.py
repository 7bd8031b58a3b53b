"""One run a device: an advisory lock that a crash cannot leave behind and that nobody can hold for ever.

The lock is an flock on a file that all users of the host share. It is held by the supervisor and inherited by the
worker, so it is gone exactly when the last process that could use the device is: a killed run, a killed controller and
a rebooted host leave none.

* The files lie in /tmp itself, which belongs to root and is sticky: nobody can replace what another made there, links
  are not followed, and a file that was replaced by its owner is noticed. Containers that share devices have to share a
  directory: name it in `COLLECT_REMOTE_LEASE_DIR` on both sides.
* A lease counts while its file is locked, and until the time its note gives, a day at most. A file that something else
  keeps locked does not count for longer: the next slot of the same device is taken instead. (Who signs anew every day
  can still block others, under their own name.)
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pwd
import stat
import time
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple

DIRECTORY_VARIABLE = "COLLECT_REMOTE_LEASE_DIR"
DEFAULT_DIRECTORY = "/tmp"  # noqa: S108 - shared by all users on purpose
LONGEST_S = 24 * 3600.0
SIGNING_S = 10.0
SLOTS = 8

Device = Dict[str, Any]


class Taken(Exception):
    """A device is leased; the message says by whom."""


class Leases:
    """Devices held for this process and for those that inherit `descriptors`."""

    def __init__(self, devices: Sequence[Device], descriptors: Sequence[int]) -> None:
        self.devices = list(devices)
        self.descriptors = list(descriptors)

    def release(self) -> None:
        while self.descriptors:
            os.close(self.descriptors.pop())


def take(devices: Sequence[Device], run_id: str, seconds: float) -> Leases:
    """Lock all of `devices` (each with its `logic` id and `label`) for a run that ends within `seconds`, or none.

    Raises Taken when one of them is leased, OSError when the lease directory cannot be used.
    """
    held = Leases(devices, [])
    try:
        for device in devices:
            held.descriptors.append(_take_one(device, run_id, seconds))
    except BaseException:
        held.release()
        raise
    return held


def _take_one(device: Device, run_id: str, seconds: float) -> int:
    directory = os.environ.get(DIRECTORY_VARIABLE, DEFAULT_DIRECTORY)
    with _no_umask():
        os.makedirs(directory, mode=0o1777, exist_ok=True)
    paths = [
        os.path.join(directory, "collect_remote_npu{}.{}.lock".format(device["logic"], slot)) for slot in range(SLOTS)
    ]
    for slot, path in enumerate(paths):
        descriptor, locked = _try(path)
        if locked:
            _sign(descriptor, run_id, seconds)
            # Somebody may have a later slot from a time when this one was locked for nothing.
            holder = next(filter(None, map(_holder_of, paths[slot + 1 :])), None)
            if holder is None:
                return descriptor
        else:
            holder = _holder(descriptor)
        os.close(descriptor)
        if holder:
            raise Taken("{} is leased by {}".format(device["label"], holder))
    raise Taken("{}: all its lease files are locked by something that is no run".format(device["label"]))


def _try(path: str) -> Tuple[int, bool]:
    """Open a lease file and try to lock it; again when its owner replaced it between the two."""
    for _ in range(10):
        descriptor = _open(path)
        locked = _lock(descriptor)
        if not locked or _is_still(path, descriptor):
            return descriptor, locked
        os.close(descriptor)
    raise OSError(errno.EBUSY, "it is replaced all the time", path)


def _holder_of(path: str) -> Optional[str]:
    """The holder of a lease file that may not exist, None when it is free."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return None if _lock(descriptor) else _holder(descriptor)
    finally:
        os.close(descriptor)


def _open(path: str) -> int:
    """Open for the lock alone: another user's file may not be ours to make again, and a link is never followed."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        with _no_umask():
            descriptor = os.open(path, flags | os.O_CREAT, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", path)
    return descriptor


@contextlib.contextmanager
def _no_umask() -> Iterator[None]:
    old = os.umask(0)
    try:
        yield
    finally:
        os.umask(old)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: str, descriptor: int) -> bool:
    """Is the locked file the one that has the name?"""
    try:
        named = os.lstat(path)
    except OSError:
        return False
    return os.path.samestat(named, os.fstat(descriptor))


def _sign(descriptor: int, run_id: str, seconds: float) -> None:
    note = {
        "run": run_id,
        "pid": os.getpid(),
        "user": pwd.getpwuid(os.getuid()).pw_name,
        "until": time.time() + min(seconds, LONGEST_S),
    }
    text = json.dumps(note).encode()
    os.pwrite(descriptor, text, 0)
    os.ftruncate(descriptor, len(text))


def _holder(descriptor: int) -> Optional[str]:
    """Who holds a locked file, in words; None when it is nobody whose lease counts."""
    try:
        note = json.loads(os.pread(descriptor, 4096, 0))
        run, pid, user, until = (note[key] for key in ("run", "pid", "user", "until"))
        counts = time.time() < float(until) <= time.time() + LONGEST_S
    except (ValueError, KeyError, TypeError, OSError):
        # Locked and not signed yet: whoever made the file a moment ago is about to.
        return "another run" if time.time() - os.fstat(descriptor).st_mtime < SIGNING_S else None
    return _printable("run {} of {} (pid {})".format(run, user, pid)) if counts else None


def _printable(text: str) -> str:
    """Another user wrote it: no control characters, no flood."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:120]
