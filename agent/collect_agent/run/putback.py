"""A file of the user's that a run changes for a while, and what it was before.

That is written down first: whoever comes to the end of the run puts it back, also when all of the run was killed at
once. What somebody else has written there meanwhile is theirs.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from typing import Any, Callable, Dict, Tuple

from . import listing
from .rundir import RunDir


def change(run: RunDir, path: str, said: Callable[[bytes, float], Tuple[bytes, float]]) -> None:
    """Write what `said` makes of text and mtime of the file at `path`: its new ones, in one rename. OSError.

    Nobody else may be at the file. What an earlier run of this work directory has left there is put back first.
    """
    for other in listing.ours(os.path.dirname(os.path.dirname(run.path))):
        if other.id != run.id and _noted(other).get("path") == path:
            put_back(other)
    with open(path, "rb") as file:
        before, status = file.read(), os.fstat(file.fileno())
    text, mtime = said(before, status.st_mtime)
    note = {
        "path": path,
        "text": base64.b64encode(before).decode(),
        "mtime": status.st_mtime,
        "mode": status.st_mode & 0o777,
        "owner": [status.st_uid, status.st_gid],
        "ours": _digest(text),
    }
    with open(run.changed, "w", encoding="utf-8") as file:
        json.dump(note, file)
        file.flush()
        os.fsync(file.fileno())
    _write(note, text, mtime)


def put_back(run: RunDir) -> None:
    """Make the file what it was, with its time; nothing where the run has changed none, or it was put back."""
    note = _noted(run)
    with contextlib.suppress(OSError, KeyError, TypeError, ValueError):
        with open(note["path"], "rb") as file:
            is_ours = _digest(file.read()) == note["ours"]
        if is_ours:
            _write(note, base64.b64decode(note["text"]), note["mtime"])
        os.unlink(run.changed)


def _noted(run: RunDir) -> Dict[str, Any]:
    try:
        with open(run.changed, encoding="utf-8") as file:
            noted = json.load(file)
        return noted if isinstance(noted, dict) else {}
    except (OSError, ValueError):
        return {}


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _write(note: Dict[str, Any], text: bytes, mtime: float) -> None:
    """The whole file at once, with that time; whose it was, and with the same rights."""
    part = "{}.{}".format(note["path"], os.getpid())
    try:
        with open(part, "wb") as file:
            if os.geteuid() == 0:
                os.fchown(file.fileno(), *note["owner"])
            os.fchmod(file.fileno(), note["mode"])
            file.write(text)
        os.utime(part, (mtime, mtime))
        os.replace(part, note["path"])
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
