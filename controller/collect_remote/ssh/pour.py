"""A script whose output is an open file of ours from the login on: no byte of it comes through this process.

What login scripts print lands in that file as well, and is taken out again before the script writes a byte. Should this
process be killed in between, the digest of the file tells.
"""

from __future__ import annotations

from ..cancel import Cancel
from .stream import Stream
from .transports import Connection, Pouring

GO = b"go\n"


class Pour(Stream):
    """Its script waits for a line on its input. What is copied can go into that one file alone."""

    def __init__(self, channel: Pouring, connection: Connection, where: str, cancel: Cancel | None) -> None:
        super().__init__(channel, connection, where, cancel=cancel)
        self._pouring = channel
        self._gone = False

    def go(self) -> None:
        """Have the script begin in a file that is as it was before. Raises what `lines` does, and OSError."""
        self._begin()
        self._clear()
        self.send(GO)

    def close(self) -> None:
        super().close()
        if not self._gone:
            self._clear()

    def _clear(self) -> None:
        self._buffer.clear()
        self._pouring.clear()
        self._gone = True
