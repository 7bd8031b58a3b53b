"""Other places on the host to parse a profile in, when the one that it was recorded in is the trouble.

A parser works on databases, renames and appends; network file systems, overlays and full disks fail at that in many
ways. What is copied is removed again by whoever comes to it first: us, a later `stop` or `clean`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import time
from typing import Dict, Iterable, List, NamedTuple, Optional

from ..run.rundir import RunDir
from . import parsed

CANDIDATES = ("/dev/shm", "/tmp", "/var/tmp")  # noqa: S108 - besides TMPDIR and the home
PLAIN = re.compile(r"[A-Za-z0-9_./-]+")  # by every release of the profiler and of msprof
# Where databases, renames or locks are known to fail or to crawl: only where there is nothing else.
POOR = re.compile(r"nfs|cifs|smb|9p|afs|ceph|lustre|gpfs|glusterfs|beegfs|panfs|fuse|overlay|virtiofs")
TIMES = 20  # the free space that Huawei's documentation asks for, in sizes of the raw data
PROBE_BYTES = 4 << 20
PROBE_S = 5.0  # a file system that hangs is none to use


class Place(NamedTuple):
    """A directory, the type and id of its file system, its free bytes, and how many bytes a second it takes."""

    path: str
    kind: str
    device: int
    free: int
    speed: float


def candidates(environment: Dict[str, str]) -> List[str]:
    """Directories to think of, as real paths, once each."""
    named = (environment.get("TMPDIR", ""), *CANDIDATES, os.path.expanduser("~"))
    paths = dict.fromkeys(os.path.realpath(path) for path in named if os.path.isabs(path))
    return [path for path in paths if PLAIN.fullmatch(path)]


def places(run: RunDir, environment: Dict[str, str], need: int) -> List[Place]:
    """The other file systems of this host with `need` free bytes, best first."""
    here = os.stat(run.profile).st_dev
    measured = [measure(path) for path in candidates(environment)]
    return ranked((place for place in measured if place), need, here)


def ranked(measured: Iterable[Place], need: int, here: int) -> List[Place]:
    """One place of every file system but `here` that has the room: local ones first, then the faster. Pure."""
    ordered = sorted(measured, key=lambda place: (bool(POOR.search(place.kind)), -place.speed))
    chosen: Dict[int, Place] = {}
    for place in ordered:
        if place.device != here and place.free >= need:
            chosen.setdefault(place.device, place)
    return list(chosen.values())


def measure(path: str) -> Optional[Place]:
    """What a directory is like, found out by a child, which may hang; None for one that cannot be used."""
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        with contextlib.suppress(BaseException):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.write(writable, json.dumps(_probed(path)).encode())
            status = 0
        os._exit(status)
    os.close(writable)
    try:
        told = os.read(readable, 4096) if select.select([readable], [], [], PROBE_S)[0] else b""
    finally:
        os.close(readable)
        os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0 if told else os.WNOHANG)
    return Place(*json.loads(told.decode())) if told else None


def _probed(path: str) -> Place:
    status, room = os.stat(path), os.statvfs(path)
    free = room.f_bavail * room.f_frsize
    probe = os.path.join(path, ".collect_remote_{}_{}".format(os.getpid(), time.time_ns()))
    descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.unlink(probe)  # at once: nothing is left, whatever happens
        begun = time.monotonic()
        written = os.write(descriptor, bytes(min(PROBE_BYTES, max(free // 2, 1))))
        os.fsync(descriptor)
        seconds = max(time.monotonic() - begun, 1e-6)
    finally:
        os.close(descriptor)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        return Place(path, kind_of(path, file.read()), status.st_dev, free, written / seconds)


def kind_of(path: str, mounts: str) -> str:
    """The type of the file system that holds `path`: that of its longest mount point, the last of equals. Pure."""
    longest, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = before.split(" ")[4].replace("\\040", " ")
        if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= longest:
            longest, kind = len(point), after.split(" ")[0]
    return kind


def raw_bytes(directory: str) -> int:
    """What a copy of the profile's raw data takes."""
    tops = [os.path.join(directory, name) for name in parsed.raw(directory)]
    return sum(
        os.lstat(os.path.join(f, name)).st_size for top in tops for f, _, names in os.walk(top) for name in names
    )


class Copy:
    """The raw data of a profile at another place, for the time of a `with`."""

    def __init__(self, run: RunDir, directory: str, place: Place) -> None:
        self._run, self._directory = run, directory
        self._root = os.path.join(place.path, "collect_remote_" + run.id)
        self.directory = os.path.join(self._root, os.path.basename(directory))

    def __enter__(self) -> Copy:
        note(self._run, self._root)
        os.mkdir(self._root, 0o700)
        try:
            os.mkdir(self.directory, 0o750)
            for name in os.listdir(self._directory):
                source, target = (os.path.join(folder, name) for folder in (self._directory, self.directory))
                if name in parsed.raw(self._directory):
                    _copy_tree(source, target)
                elif name.endswith(".json") and os.path.isfile(source):
                    shutil.copyfile(source, target)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def bring_back(self) -> None:
        """What was parsed here, and the parser's logs, in place of what was there."""
        for name in (parsed.OUTPUT, "logs"):
            made, target = os.path.join(self.directory, name), os.path.join(self._directory, name)
            if os.path.isdir(made):
                fresh = os.path.join(os.path.dirname(self._directory), ".{}.{}".format(name, os.getpid()))
                _copy_tree(made, fresh)
                shutil.rmtree(target, ignore_errors=True)
                os.rename(fresh, target)


def _copy_tree(source: str, target: str) -> None:
    """Contents alone, in directories and files of our own: owners and modes may be what the parser refuses."""
    for folder, _, names in os.walk(source):
        place = os.path.join(target, os.path.relpath(folder, source))
        os.mkdir(os.path.normpath(place), 0o750)
        for name in names:
            if os.path.isfile(os.path.join(folder, name)):
                shutil.copyfile(os.path.join(folder, name), os.path.join(place, name))


def note(run: RunDir, root: str) -> None:
    """Write down that `root` is going to be made: a supervisor that is killed removes nothing itself."""
    with open(run.copies, "a", encoding="utf-8") as file:
        file.write(root + "\n")
        file.flush()
        os.fsync(file.fileno())


def remove_copies(run: RunDir) -> None:
    """Remove what is left of the copies of a run that has ended, and nothing else."""
    with contextlib.suppress(OSError), open(run.copies, encoding="utf-8") as file:
        for line in file:
            root = line.rstrip("\n")
            if os.path.basename(root) == "collect_remote_" + run.id and os.lstat(root).st_uid == os.geteuid():
                shutil.rmtree(root, ignore_errors=True)
