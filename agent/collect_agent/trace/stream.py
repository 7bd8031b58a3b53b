"""Bytes and text of a file that somebody else opened, and how damage is told."""

from __future__ import annotations

import io
from typing import Any, Optional

CHUNK = 1 << 18


class Damage(Exception):
    """A file is cut off, overwritten, or not what its name says."""


class _Borrowed(io.RawIOBase):
    """A raw file that somebody else closes: the wrappers around it are dropped without closing it."""

    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__()
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        return self._raw.readinto(buffer)


class Chain(io.RawIOBase):
    """The bytes `head`, then what is left of `tail`, which somebody else closes."""

    def __init__(self, head: bytes, tail: io.BufferedReader) -> None:
        super().__init__()
        self._head = memoryview(head)
        self._tail = tail

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), len(self._head))
        if not size:
            return self._tail.readinto(buffer)
        buffer[:size] = self._head[:size]
        self._head = self._head[size:]
        return size


def buffered(raw: io.RawIOBase) -> io.BufferedReader:
    """`raw`, which stays open, with reads that come back short only at its end."""
    return io.BufferedReader(_Borrowed(raw), CHUNK)


def text(raw: io.RawIOBase, errors: str = "strict") -> io.TextIOWrapper:
    """`raw`, which stays open, as UTF-8 text with its line ends; a byte order mark is skipped."""
    return io.TextIOWrapper(buffered(raw), "utf-8-sig", errors, newline="")
