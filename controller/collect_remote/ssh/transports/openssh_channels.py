"""One command on a connection by the system's `ssh`: a client of the master, which is handed our ends of everything."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import tempfile
import time
from typing import IO

from . import MOST_ERRORS, Lost

GRACE_S = 0.5  # for a command to end by itself when its input has ended
LOOK_S = 0.01  # from one look at a file that grows to the next
READ_BYTES = PIPE_BYTES = 1024 * 1024
_REFUSED = b"session request failed"  # of the client; nothing was started


class _Client:
    """It hands its ends to the master, and waits for the exit status and for the master to have closed them."""

    def __init__(self, command: list[str], output: int) -> None:
        self._errors, self._errors_read = tempfile.TemporaryFile(), 0  # noqa: SIM115 - closed with the channel
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=self._errors,
            bufsize=0,
            start_new_session=True,
        )
        self._input = _pipe(self._process.stdin)
        os.set_blocking(self._input.fileno(), False)

    def errors(self) -> bytes:
        found = os.pread(self._errors.fileno(), MOST_ERRORS, self._errors_read)
        self._errors_read += len(found)
        return found

    def write(self, data: bytes, timeout: float) -> None:
        left = memoryview(data)
        while left:
            if not _ready(self._input, select.POLLOUT, timeout):
                raise TimeoutError
            try:
                left = left[os.write(self._input.fileno(), left) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise Lost(error.strerror or str(error)) from error

    def status(self, timeout: float) -> int:
        """ssh's own 255 also stands for a lost connection, and for a command that a signal ended."""
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return -1
        return -1 if status == 255 or status < 0 else status

    def close(self) -> None:
        self._input.close()
        self._errors.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
            return
        self._process.kill()
        self._process.wait()

    def _told(self, data: bytes) -> bytes:
        """`data` of the command's output. Lost when its end is that of a command that never began."""
        if not data and _REFUSED in os.pread(self._errors.fileno(), MOST_ERRORS, 0):
            raise Lost("the server allows no further session")
        return data


class OpenSshChannel(_Client):
    """One whose output comes through a pipe."""

    def __init__(self, command: list[str]) -> None:
        super().__init__(command, subprocess.PIPE)
        self._output = _pipe(self._process.stdout)
        with contextlib.suppress(OSError, AttributeError):  # Linux; a larger pipe is fewer turns
            fcntl.fcntl(self._output.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def read(self, timeout: float) -> bytes:
        if not _ready(self._output, select.POLLIN, timeout):
            raise TimeoutError
        return self._told(os.read(self._output.fileno(), READ_BYTES))

    def into(self, file: int, length: int, timeout: float) -> int:
        if not _ready(self._output, select.POLLIN, timeout):
            raise TimeoutError
        data = os.read(self._output.fileno(), min(length, READ_BYTES))
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]
        return len(data)

    def close(self) -> None:
        self._output.close()
        super().close()


class OpenSshPour(_Client):
    """One whose output is a file of ours, which the master itself writes: we see it grow."""

    def __init__(self, command: list[str], file: int) -> None:
        self._file = file
        self._seen = self._begin = os.fstat(file).st_size
        super().__init__(command, file)

    def read(self, timeout: float) -> bytes:
        data = os.pread(self._file, min(self._grown(timeout), READ_BYTES), self._seen)
        self._seen += len(data)
        return self._told(data)

    def into(self, file: int, length: int, timeout: float) -> int:
        assert file == self._file  # noqa: S101 - there is no other
        grown = min(self._grown(timeout), length)
        self._seen += grown
        return grown

    def clear(self) -> None:
        os.ftruncate(self._file, self._begin)
        self._seen = self._begin

    def _grown(self, timeout: float) -> int:
        """Bytes that nobody was told of; 0 when the command has ended and there will be none. TimeoutError."""
        until = time.monotonic() + timeout
        while True:
            ended = self._process.poll() is not None
            grown = max(0, os.fstat(self._file).st_size - self._seen)
            if grown or ended:
                return grown
            if time.monotonic() > until:
                raise TimeoutError
            time.sleep(LOOK_S)


def _pipe(end: IO[bytes] | None) -> IO[bytes]:
    assert end is not None  # noqa: S101 - it was asked for
    return end


def _ready(file: IO[bytes], event: int, timeout: float) -> bool:
    poll = select.poll()
    poll.register(file.fileno(), event)
    return bool(poll.poll(timeout * 1000))
