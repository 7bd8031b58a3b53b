"""What is not finished: a directory of its own for every tool, and what is kept of it for the next one.

Whoever uses one holds a lock on it. Nothing in it is trusted but a regular file of the archive's name, and of that only
what its digest shows in the end: others may have put things there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from collect_agent.output.archive import digest_file
from collect_agent.run.rundir import ARCHIVE, ID, PARTIAL

from ..errors import ConnectError, Interrupted, storage_error
from .store import MANIFEST, ROOT, Place

NAME = re.compile(ID.pattern + r"\.[0-9a-f]{6}")
ABANDONED_S = 7 * 24 * 3600.0


@contextlib.contextmanager
def incoming(where: Place) -> Iterator[None]:
    """Make the growing directory, with what is here already of the same run: brought in part, or published elsewhere.

    It is gone afterwards, published or not, unless the connection was lost or the user left: then what came of the
    archive is kept for who comes next. StorageError when it cannot be made.
    """
    directory = where.incoming
    try:
        lock = _taken_over(directory)
        if lock is None:
            _make(directory)
            lock = _opened(directory)
            with contextlib.suppress(OSError):  # of a file system without locks, on which nobody takes over anything
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            _copy_known(directory)
    except OSError as error:
        raise storage_error(directory, error) from error
    keep = False
    try:
        _sweep(directory.parent)
        yield
    except (ConnectError, Interrupted, KeyboardInterrupt) as error:
        keep = _left(error) and _purged(directory)
        raise
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
            with contextlib.suppress(OSError):
                directory.parent.rmdir()  # only when no other run is in it
        os.close(lock)


def _left(error: BaseException) -> bool:
    """Whether it was the connection or the user that went, not the run."""
    went = (ConnectError, KeyboardInterrupt)
    return isinstance(error, went) or isinstance(error.__cause__, went)


def _opened(directory: Path) -> int:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _held(directory: Path) -> int:
    """A descriptor with a lock on `directory`, whatever its name becomes. OSError when another tool has it."""
    lock = _opened(directory)
    try:
        if os.fstat(lock).st_uid != os.geteuid():
            raise PermissionError
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _abandoned(folder: Path) -> Iterator[tuple[Path, int]]:
    """Directories of ours that nobody holds, held; the descriptors are the caller's."""
    for other in sorted(folder.iterdir()) if folder.is_dir() else ():
        if NAME.fullmatch(other.name):
            with contextlib.suppress(OSError):
                yield other, _held(other)


def _taken_over(directory: Path) -> int | None:
    """The lock of a directory of the same run that has something to go on with: it has our name now."""
    found = None
    for other, lock in _abandoned(directory.parent):
        same = other.name.partition(".")[0] == directory.name.partition(".")[0]
        if found is None and same and _purged(other):
            other.rename(directory)
            os.utime(directory)
            fcntl.flock(lock, fcntl.LOCK_SH)
            found = lock
            continue
        if same:  # there is nothing in it to go on with
            shutil.rmtree(other, ignore_errors=True)
        os.close(lock)
    return found


def _purged(directory: Path) -> bool:
    """Take everything out but a part of an archive; whether there is one."""
    found = False
    for path in directory.iterdir() if directory.is_dir() else ():
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            shutil.rmtree(path, ignore_errors=True)
        elif path.name in (ARCHIVE, PARTIAL) and stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            found = found or status.st_size > 0
        else:
            path.unlink()
    return found


def _copy_known(directory: Path) -> None:
    """An archive that is published here is not brought again, unless it has changed since."""
    run_id = directory.name.partition(".")[0]
    for archive in ROOT.glob(f"*/*/{run_id}/{ARCHIVE}"):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            told = json.loads(archive.with_name(MANIFEST).read_text(encoding="utf-8"))["archive"]
            if digest_file(str(archive)) == (told["size"], told["sha256"]):
                shutil.copyfile(archive, directory / ARCHIVE)


def _sweep(folder: Path) -> None:
    """Remove what nobody has come back for."""
    for other, lock in _abandoned(folder):
        if time.time() - os.fstat(lock).st_mtime > ABANDONED_S:
            shutil.rmtree(other, ignore_errors=True)
        os.close(lock)


def _make(directory: Path) -> None:
    """Another tool may remove what is empty above it between the two steps."""
    for left in reversed(range(10)):
        try:
            directory.mkdir(parents=True)
        except FileNotFoundError:
            if not left:
                raise
        else:
            return
