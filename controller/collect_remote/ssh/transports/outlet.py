"""What one of paramiko's channels brings: for a reader to fetch, or straight into a file.

The file is written by the thread that decrypts: to hand every packet to another one costs a third of the speed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from paramiko.buffered_pipe import BufferedPipe, PipeTimeout

GATHERED_BYTES, GATHERED_PIECES = 256 * 1024, 256  # that are written at once; IOV_MAX is 1024
TOLD_BYTES = 1024 * 1024  # after which the reader hears of it, and the peer that there is room again
LOOK_S = 0.2  # ... or after this time


class Outlet(BufferedPipe):  # type: ignore[type-arg] # generic in its stubs alone
    """Stands in for the `in_buffer` of a channel, which feeds it in one thread and reads it, in `recv`, in another."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = threading.Condition()
        self._file: int | None = None
        self._length = self._room = 0  # bytes that the file takes, and still takes
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._written = 0  # bytes that nobody was told of
        self._failed: OSError | None = None
        self._ended = False

    def aim(self, file: int, length: int) -> None:
        """Up to `length` bytes go into `file` until `let_go`, and `read` tells of them."""
        with self._turn:
            self._file, self._length, self._room, self._failed = file, length, length, None
            self.feed(self.empty())

    def let_go(self) -> int:
        """The file is left alone from now on; how many bytes went into it. What did not is there to be read.

        OSError when it could not be written.
        """
        with self._turn:
            moved = self._length - self._room - self._gathered_bytes
            self._file, self._room = None, 0
            super().feed(b"".join(self._gathered))
            self._gathered.clear()
            self._gathered_bytes = 0
            if self._failed:
                raise self._failed
            return moved

    @property
    def is_full(self) -> bool:
        """Whether the file has got all that it takes."""
        return not self._room

    def feed(self, data: bytes) -> None:
        with self._turn:
            mine, rest = data[: self._room], data[self._room :]
            if mine:
                self._room -= len(mine)
                self._gathered.append(mine)
                self._gathered_bytes += len(mine)
                if self._gathered_bytes >= GATHERED_BYTES or len(self._gathered) >= GATHERED_PIECES or not self._room:
                    self._write()
                if self._enough():
                    self._turn.notify()
            if rest:
                super().feed(rest)

    def read(self, nbytes: int, timeout: float | None = None) -> Any:
        """Bytes, or while there is a file a range of that length: `recv` asks for nothing else, and acknowledges it.

        PipeTimeout.
        """
        if self._file is None:
            return super().read(nbytes, timeout)
        until = time.monotonic() + (timeout or 0.0)
        with self._turn:
            while True:
                self._turn.wait_for(self._enough, LOOK_S)
                self._write()
                if self._written or self._ended or self._failed:
                    told, self._written = self._written, 0
                    return range(told)
                if time.monotonic() > until:
                    raise PipeTimeout

    def close(self) -> None:
        with self._turn:
            super().close()
            self._ended = True
            self._turn.notify()

    def _enough(self) -> bool:
        return self._written >= TOLD_BYTES or not self._room or self._ended or self._failed is not None

    def _write(self) -> None:
        if self._file is None or self._failed or not self._gathered:
            return
        try:
            write(self._file, self._gathered)
        except OSError as error:
            self._failed = error
        self._written += self._gathered_bytes
        self._gathered.clear()
        self._gathered_bytes = 0


def write(file: int, pieces: Sequence[bytes]) -> None:
    """All of them. OSError."""
    written = os.writev(file, pieces)
    if written < sum(map(len, pieces)):
        rest = b"".join(pieces)[written:]
        while rest:
            rest = rest[os.write(file, rest) :]
