"""The tree of results here: a name in it means verified, and nothing in it is ever overwritten.

profiles/<host>/<model>/<run id>/{profile_l1.tar.gz, manifest.json, run.log}, .../latest -> <run id>
profiles/.incoming/<run id>.<random>/     what is not finished; a tool that was killed or cut off leaves its own
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collect_agent.rundir import ARCHIVE, ID, sync_directory

from .errors import ConnectError, Interrupted, Trouble, UsageError, storage_error

ROOT = Path("profiles")
MANIFEST = "manifest.json"
EXISTS = Trouble(
    "result-exists",
    UsageError,
    "{directory} exists already, and a result is never overwritten",
    "`--out` names the directory of the result itself, not one to put it into",
    "name a directory that does not exist",
)
OURS = re.compile(ID.pattern + r"\.[0-9a-f]{6}")
ABANDONED_S = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where one result will stand, and where it grows until then; both on one file system."""

    final: Path
    incoming: Path
    latest: Path | None


def place(host: str, model: str, run_id: str, out: Path | None = None) -> Place:
    """Names only, nothing is made. UsageError when the result directory exists."""
    if out is not None:
        final, root, latest = out, out.parent, None
    else:
        root = ROOT
        final = root / host / model / run_id
        latest = final.parent / "latest"
    if os.path.lexists(final):
        raise EXISTS(directory=final)
    return Place(final, root / ".incoming" / f"{run_id}.{os.urandom(3).hex()}", latest)


def partial(where: Place) -> Place:
    """Where what is not valid goes: never under the name of a result, and `latest` is none of it."""
    final = where.final if where.latest is None else where.final.with_name(where.final.name + ".partial")
    return Place(final, where.incoming, None)


@contextlib.contextmanager
def incoming(where: Place) -> Iterator[None]:
    """Make the growing directory, with what is here already of the same run: brought in part, or published elsewhere.

    It is gone afterwards, published or not, unless the connection was lost or the user left: then it is kept for who
    comes next. StorageError when it cannot be made.
    """
    try:
        if not _taken_over(where):
            _make(where.incoming)
            _copy_known(where)
        _sweep(where.incoming.parent)
        lock = os.open(where.incoming, os.O_RDONLY)
    except OSError as error:
        raise storage_error(where.incoming, error) from error
    with contextlib.suppress(OSError):  # of a file system without locks
        fcntl.flock(lock, fcntl.LOCK_SH)
    keep = False
    try:
        yield
    except (ConnectError, Interrupted, KeyboardInterrupt):
        keep = _has_content(where.incoming)
        raise
    finally:
        os.close(lock)
        if not keep:
            shutil.rmtree(where.incoming, ignore_errors=True)
            with contextlib.suppress(OSError):
                where.incoming.parent.rmdir()  # only when no other run is in it


def _taken_over(where: Place) -> bool:
    """Whether there was a growing directory of the same run that nobody holds any more: it has our name now."""
    run_id = where.incoming.name.partition(".")[0]
    for other in filter(_has_content, where.incoming.parent.glob(f"{run_id}.*")):
        with contextlib.suppress(OSError):  # it is held, or somebody else was quicker
            lock = os.open(other, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                other.rename(where.incoming)
            finally:
                os.close(lock)
            return True
    return False


def _copy_known(where: Place) -> None:
    """An archive is not brought twice; that it is this one, its digest will show."""
    run_id = where.incoming.name.partition(".")[0]
    for archive in ROOT.glob(f"*/*/{run_id}/{ARCHIVE}"):
        shutil.copyfile(archive, where.incoming / ARCHIVE)


def _has_content(directory: Path) -> bool:
    return directory.is_dir() and any(path.stat().st_size for path in directory.iterdir())


def _sweep(folder: Path) -> None:
    """Remove what a tool that was killed has left."""
    for other in folder.iterdir():
        if OURS.fullmatch(other.name):
            with contextlib.suppress(FileNotFoundError):  # its own tool is quicker
                if time.time() - other.stat().st_mtime > ABANDONED_S:
                    shutil.rmtree(other, ignore_errors=True)


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


def publish(where: Place, manifest: dict[str, Any]) -> None:
    """Write the manifest beside the archive and give the whole its final name, at once."""
    try:
        with (where.incoming / MANIFEST).open("w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        where.final.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(where.final):
            raise UsageError(f"{where.final} appeared while the run was going on", "the result is kept on the host")
        where.incoming.rename(where.final)
        sync_directory(where.final.parent)
    except OSError as error:
        raise storage_error(where.final.parent, error) from error
    if where.latest is not None:
        with contextlib.suppress(OSError):  # the result stands whatever `latest` is here
            fresh = where.latest.with_name(f".latest-{where.final.name}")
            fresh.symlink_to(where.final.name)
            fresh.replace(where.latest)
