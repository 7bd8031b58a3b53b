"""What the profiler and its parser will meet in the directory of a run: tried, measured, and taken away again."""

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple  # noqa: F401 - used in comments

    from .reader import unfinished

FOLDERS = ("runs", "agent")  # of `collect_agent.run.rundir` and of the agent itself, made by whoever came first


def nearest(path):
    # type: (str) -> str
    """The path itself, or of its parents the first that exists: the same file system, the same rights."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def space(path):
    # type: (str) -> Dict[str, Any]
    """Bytes and inodes free for us; None for inodes where the file system does not count them."""
    info = os.statvfs(path)
    return {"bytes": info.f_bavail * info.f_frsize, "inodes": info.f_favail if info.f_files else None}


def file_system(path, mounts="/proc/self/mountinfo"):
    # type: (str, str) -> Optional[str]
    """Type of the file system that holds `path`."""
    found = _holding(path, mounts)
    return found[1] if found else None


def mount(path):
    # type: (str) -> Dict[str, Any]
    """{"point", "id": device and inode of it} of the mount that holds `path`, each None where it is not known."""
    found = _holding(path, "/proc/self/mountinfo")
    try:
        status = os.stat(found[0]) if found else None
    except (IOError, OSError):
        status = None
    return {"point": found and found[0], "id": status and [status.st_dev, status.st_ino]}


def _holding(path, mounts):
    # type: (str, str) -> Optional[Tuple[str, str]]
    """(mount point, type) of the longest mount point that leads to `path`, the last of equals."""
    longest, best = -1, None
    try:
        with open(mounts) as file:
            lines = file.read().splitlines()
    except (IOError, OSError, ValueError):
        return None
    for line in lines:
        before, _, after = line.partition(" - ")
        point = before.split(" ")[4].replace("\\040", " ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:
            longest, best = len(point), (point, after.split(" ")[0])
    return best


def use(workdir):
    # type: (str) -> Dict[str, Any]
    """Make a directory and a file as a run would, look whose they are, rename, stat, keep a database; remove it all.

    {"uid", "euid", "mode" of the directory, "failed": what could not be done, or None, "sqlite": the same of the
    database, "blocked": what of an earlier run is in the way}, where what was not reached is None.
    """
    found = {"uid": None, "euid": os.geteuid(), "mode": None, "failed": None, "sqlite": None}  # type: Dict[str, Any]
    found["blocked"] = blocked(workdir)
    place = os.path.join(nearest(workdir), ".collect_remote_{}_{}".format(os.getpid(), int(time.time() * 1e6)))
    with unfinished:
        try:
            _work(place, found)
        finally:
            _remove(place)
    return found


def blocked(workdir):
    # type: (str) -> Optional[str]
    """Which of our directories below `workdir` is there and cannot be used, and why."""
    for name in FOLDERS:
        path = os.path.join(workdir, name)
        if not os.path.lexists(path):
            continue
        if not os.path.isdir(path):
            return "{} is not a directory".format(path)
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            status = os.stat(path)
            return "{} is not ours to write: it belongs to uid {}, mode {:o}".format(
                path, status.st_uid, status.st_mode & 0o7777
            )
    return None


def _remove(place):
    # type: (str) -> None
    try:
        for name in os.listdir(place):
            os.unlink(os.path.join(place, name))
        os.rmdir(place)
    except (IOError, OSError):  # it was never made, or is not to be removed
        pass


def _work(place, found):
    # type: (str, Dict[str, Any]) -> None
    """Nothing waits for the disk: whether it keeps what it took is not the question."""
    doing = "make a directory"
    try:
        os.mkdir(place)  # by the umask, as CANN does
        status = os.stat(place)
        found["uid"], found["mode"] = status.st_uid, status.st_mode & 0o777
        doing = "write a file"
        part, whole = os.path.join(place, "file.part"), os.path.join(place, "file")
        with open(part, "wb") as file:
            file.write(b"x" * 4096)
        doing = "rename a file"
        os.rename(part, whole)
        if os.stat(whole).st_size != 4096 or os.path.exists(part):
            raise OSError(5, "the file has another size or name than it was given")
    except (IOError, OSError) as error:
        found["failed"] = "{}: {}".format(doing, error.strerror)
        return
    found["sqlite"] = _database(os.path.join(place, "probe.db"))


def _database(path):
    # type: (str) -> Optional[str]
    """What SQLite complains of; None also where this Python has none, which the file system does not answer for."""
    try:
        import sqlite3
    except ImportError:
        return None
    try:
        database = sqlite3.connect(path, timeout=2.0)
        try:
            database.execute("PRAGMA synchronous = OFF")
            database.execute("CREATE TABLE probe (value INTEGER)")
            database.execute("INSERT INTO probe VALUES (1)")
            database.commit()
            database.execute("SELECT value FROM probe").fetchone()
        finally:
            database.close()
    except sqlite3.Error as error:
        return str(error)
    return None
