"""Passphrases of encrypted keys: asked for on a terminal, once a process; the opened keys are kept in memory alone."""

from __future__ import annotations

import getpass
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

TRIES = 3  # as ssh's NumberOfPasswordPrompts

_opened: dict[Path, Any] = {}
_asking = threading.Lock()  # of many hosts at once, one asks


def may_ask() -> bool:
    """Whether somebody sits at a terminal; a pipeline is never made to wait."""
    return sys.stdin is not None and sys.stdin.isatty()


def opened(path: Path) -> Any:
    """The key of `path` if it was opened before."""
    return _opened.get(path)


def ask(path: Path, opened_by: Callable[[str], Any]) -> Any:
    """The key of `path` as `opened_by` makes it from a passphrase, or None for no; None when none does."""
    with _asking:
        for _ in range(TRIES):
            if path in _opened:
                break
            try:
                words = getpass.getpass(f"Passphrase for {path}: ")
            except EOFError:
                break
            if not words:
                break
            if (key := opened_by(words)) is not None:
                _opened[path] = key
        return _opened.get(path)
