"""One run a device: an advisory lock that a crash cannot leave behind and that nobody can hold for ever.

The lock is an flock on a file that all users of the host share. It is held by the supervisor and inherited by the
worker, so it is gone exactly when the last process that could use the device is: a killed run, a killed controller and
a rebooted host leave none.

* A device is known by its bus address, which the host and all its containers see alike; by its NPU id where it has
  none; and by its chip. (Logic ids are counted anew in containers.)
* The files lie in /tmp itself, which belongs to root and is sticky: nobody can replace what another made there, links
  are not followed, and a file that was replaced by its owner is noticed. Containers that share devices have to share a
  directory: name it in `COLLECT_REMOTE_LEASE_DIR` on both sides.
* A lease counts while its file is locked, and until the time its note gives, three days at most; time is the kernel's
  since boot, which nobody sets. What cannot be used or is kept locked by something else does not count: the next slot
  of the same device is taken. Who holds one slot has looked at all the others after signing, so of two that come at
  once at least one gives way. (Who signs anew every three days can still block others, under their own name.)
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pwd
import re
import stat
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from .reasons import LEASED

DIRECTORY_VARIABLE = "COLLECT_REMOTE_LEASE_DIR"
DEFAULT_DIRECTORY = "/tmp"  # noqa: S108 - shared by all users on purpose
LONGEST_S = 72 * 3600.0
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
    """Lock all of `devices` (each with `label`, `bus`, `npu` and `chip`) for a run that ends within `seconds`, or none.

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
    paths = [os.path.join(_directory(), name) for name in _names(device)]
    for path in paths:
        descriptor, locked = _try(path)
        if descriptor is None:
            continue
        holder = None if locked else _holder(descriptor)
        if locked:
            _sign(descriptor, run_id, seconds)
            holder = next(filter(None, (_holder_of(other) for other in paths if other != path)), None)
            if holder is None:
                return descriptor
        os.close(descriptor)
        if holder:
            raise Taken(LEASED(device=device["label"], holder=holder))
    raise Taken("{}: none of its lease files in {} can be used".format(device["label"], _directory()))


def _directory() -> str:
    """Where the lease files are; made if it was named and is missing. OSError when it cannot be."""
    directory = os.environ.get(DIRECTORY_VARIABLE) or DEFAULT_DIRECTORY
    if not os.path.isdir(directory):
        with _no_umask():
            os.mkdir(directory, 0o1777)
    return directory


def _names(device: Device) -> List[str]:
    place = device["bus"] or "npu{}".format(device["npu"])
    plain = re.sub(r"[^0-9A-Za-z.]", "_", "{}.{}".format(place, device["chip"]))  # the chips of a card may share a bus
    return ["collect_remote_{}.{}.lock".format(plain, slot) for slot in range(SLOTS)]


def _try(path: str) -> Tuple[Optional[int], bool]:
    """(descriptor, is it locked by us now?) of a lease file; None when it is nothing that could be one."""
    for _ in range(10):
        try:
            descriptor = _open(path)
        except OSError:
            return None, False
        locked = _lock(descriptor)
        if not locked or _is_still(path, descriptor):
            return descriptor, locked
        os.close(descriptor)  # its owner replaced it between our open and our lock
    return None, False


def _holder_of(path: str) -> Optional[str]:
    """Who holds the lease file, if it is there and somebody whose lease counts does."""
    if not os.path.lexists(path):
        return None
    descriptor, locked = _try(path)
    if descriptor is None:
        return None
    try:
        return None if locked else _holder(descriptor)
    finally:
        os.close(descriptor)


def _open(path: str) -> int:
    """Open or make it: no link is followed, nothing waits, and what another user made is not made again.

    OSError when it is no regular file, or may not be written.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        with _no_umask():
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        descriptor = os.open(path, flags)
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


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _sign(descriptor: int, run_id: str, seconds: float) -> None:
    note = {
        "run": run_id,
        "pid": os.getpid(),
        "user": _user_name(),
        "until": _since_boot() + min(seconds, LONGEST_S),
    }
    text = json.dumps(note).encode()
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text, 0)


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "uid {}".format(os.getuid())


def _holder(descriptor: int) -> Optional[str]:
    """Who holds a locked file, in words; None when it is nobody whose lease counts."""
    now = _since_boot()
    try:
        note = json.loads(os.pread(descriptor, 4096, 0))
        who = "run {run} of {user} (pid {pid})".format(**{key: str(note[key]) for key in ("run", "user", "pid")})
        counts = now < float(note["until"]) <= now + LONGEST_S
    except Exception:  # noqa: BLE001 - another user wrote it, whatever it is
        # Locked and not signed yet: whoever touched the file a moment ago is about to.
        return "another run" if 0 <= time.time() - os.fstat(descriptor).st_mtime < SIGNING_S else None
    return _printable(who) if counts else None


def _printable(text: str) -> str:
    """Another user wrote it: no control characters, no flood."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:120]
