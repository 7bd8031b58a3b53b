"""A small sample of a large set, taken so that samples of two files can be compared."""

from __future__ import annotations

import zlib
from typing import Set, Tuple


class Sketch:
    """Of strings: those whose hashes end in as many zero bits as keep the sample small.

    Which strings are kept depends on nothing but the strings: what is in both sets and in one sample is in the other,
    as far as both are that fine. Memory is bounded whatever the number of strings.
    """

    LIMIT = 4096

    def __init__(self) -> None:
        self._hashes: Set[int] = set()
        self._mask = 0

    def add(self, text: str) -> None:
        value = zlib.crc32(text.encode())
        if value & self._mask:
            return
        self._hashes.add(value)
        self._thin()

    def merge(self, other: "Sketch") -> None:
        """Make this the sample of both sets."""
        if other._mask & ~self._mask:
            self._mask = other._mask
            self._hashes = {value for value in self._hashes if not value & self._mask}
        self._hashes.update(value for value in other._hashes if not value & self._mask)
        self._thin()

    def _thin(self) -> None:
        while len(self._hashes) > self.LIMIT:
            self._mask = 2 * self._mask + 1
            self._hashes = {value for value in self._hashes if not value & self._mask}

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def found_in(self, other: "Sketch") -> Tuple[int, int]:
        """(how many strings of this sample the other set holds, how many were looked for)."""
        mask = self._mask | other._mask
        mine = {value for value in self._hashes if not value & mask}
        return len(mine & other._hashes), len(mine)


def time_key(text: str) -> str:
    """A decimal time as the same string whatever its trailing zeros, tab or point."""
    return text.strip().rstrip("0").rstrip(".")
