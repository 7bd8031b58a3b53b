"""Whether a file is still the one that was read: for what is read once and asked for by every host."""

from __future__ import annotations

import os
from pathlib import Path

Stamp = tuple[int, int, int]  # its number, its size, when it was written


def stamp(path: str | Path) -> Stamp | None:
    """None where there is none, or nobody may look."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path takes longer than the file system
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
