"""Files that appear whole: a simulated host changes while its programs read."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

_count = itertools.count()


def _aside(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f".{path.name}.{os.getpid()}.{next(_count)}")


def write(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Write or replace a file."""
    aside = _aside(path)
    aside.write_bytes(content if isinstance(content, bytes) else content.encode())
    aside.chmod(mode)
    aside.replace(path)


def link(path: Path, target: Path) -> None:
    """Make or replace a symbolic link."""
    aside = _aside(path)
    aside.symlink_to(target)
    aside.replace(path)
