"""One SSH connection to a host: run a script, or stream with it. Strict host keys; a time-out on every wait.

Everything is a bash script on the standard input of one exec channel: nothing has to survive the quoting rules of the
login shell, and a container or a banner changes nothing. Standard output and error come back as one stream, in the
order in which they were written; what we look for in it is led by a marker (see `collect_agent.events`), everything
else is noise and kept for error messages.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from types import TracebackType

from .errors import TransferError, UnreachableError
from .inventory import Host
from .transports import Channel, Connection, Login, Lost

SHELL = "exec bash --norc --noprofile"
LONGEST_LINE = 8 * 1024 * 1024  # bytes; ours are shorter by far
SEND_TIMEOUT_S = 60.0
STATUS_TIMEOUT_S = 30.0


class Stream:
    """One running script: its output line by line or byte by byte, its input, its exit status."""

    def __init__(self, channel: Channel, connection: Connection, where: str) -> None:
        self._channel, self._connection, self._where = channel, connection, where
        self._started = time.monotonic()
        self._buffer = bytearray()
        self.noise: deque[str] = deque(maxlen=20)

    def lines(self, timeout: float, within: float | None = None) -> Iterator[bytes]:
        """Lines without their ends, until the script ends; one that never ends is dropped.

        UnreachableError after `timeout` seconds of silence, when it is not over `within` seconds, or when it was not
        the script that ended but the connection.
        """
        until = None if within is None else time.monotonic() + within
        while True:
            end = self._buffer.find(b"\n")
            while end < 0:
                if until is not None and time.monotonic() > until:
                    raise UnreachableError(f"{self._where}: not over after {within:g} s", "check the load of the host")
                if len(self._buffer) > LONGEST_LINE:
                    self._buffer.clear()
                if not self._fill(timeout):
                    if self._buffer:
                        yield bytes(self._buffer)
                    if self.status() == -1 and not self._connection.is_open:
                        raise self._broke()
                    return
                end = self._buffer.find(b"\n")
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            yield line

    def blocks(self, length: int, timeout: float) -> Iterator[bytes]:
        """Exactly `length` bytes, in blocks as they come. UnreachableError when they end early or stall."""
        while length:
            if not self._buffer and not self._fill(timeout):
                early = f"{self._where}: the stream ended {length} bytes early"
                if self.status() != -1:  # by itself, on a sound connection: asking again would give the same
                    raise TransferError(early, "look at the run's directory on the host")
                raise UnreachableError(early)
            block = bytes(self._buffer[:length])
            del self._buffer[: len(block)]
            length -= len(block)
            yield block

    def send(self, data: bytes) -> None:
        try:
            self._channel.write(data, SEND_TIMEOUT_S)
        except TimeoutError as error:
            raise UnreachableError(
                f"{self._where}: takes nothing for {SEND_TIMEOUT_S:g} s", "check the network and the load of the host"
            ) from error
        except Lost as lost:
            raise self._broke(lost) from lost

    def status(self) -> int:
        """Exit status; -1 when the connection took it along, or it does not come."""
        return self._channel.status(STATUS_TIMEOUT_S)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self, timeout: float) -> bool:
        try:
            data = self._channel.read(timeout)
        except TimeoutError as error:
            raise UnreachableError(
                f"{self._where}: no sign of life for {timeout:g} s",
                "check the network and the load of the host",
            ) from error
        except Lost as lost:
            raise self._broke(lost) from lost
        login = self._connection.login
        if data and login.first_output_s is None:
            login.first_output_s = time.monotonic() - self._started
        self._buffer += data
        return bool(data)

    def _broke(self, why: Lost | None = None) -> UnreachableError:
        return UnreachableError(f"{self._where}: the connection broke{f': {why}' if why else ''}")


class Remote:
    """A connection that can be opened again. Use as a context manager."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._connection: Connection | None = None

    def __enter__(self) -> Remote:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect, through every jump host. ConnectError with the cause; nothing stays open then."""
        self._connection = _connect(self.host)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._connection.is_open

    @property
    def login(self) -> Login | None:
        """How the present connection came about: its times, the server, the cipher."""
        return self._connection.login if self._connection else None

    def reopen(self, patience_s: float) -> None:
        """Connect again after a loss, with growing pauses; the last error when `patience_s` seconds have passed."""
        until, pause = time.monotonic() + patience_s, 0.5
        while True:
            self.close()
            try:
                self.open()
            except UnreachableError:
                if time.monotonic() + pause > until:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 15.0)
            else:
                return

    def stream(self, script: str) -> Stream:
        """Start `script` (bash) and leave its input open. UnreachableError when no channel can be had."""
        where, connection = self.host.name, self._connection
        if connection is None:
            raise UnreachableError(f"{where}: not connected")
        try:
            stream = Stream(connection.start(SHELL), connection, where)
        except Lost as error:
            raise UnreachableError(f"{where}: cannot start a command: {error}", "try again") from error
        # Two streams would be mixed by whoever reads them first: from here on there is one. A function is read whole
        # before it runs, and a line too: no command can eat the rest of the script.
        try:
            stream.send(f"exec 2>&1\nmain() {{\n{script}\n}}\nmain; exit\n".encode())
        except BaseException:
            stream.close()
            raise
        return stream


def _connect(host: Host) -> Connection:
    """By the way that the inventory names, which alone is imported: paramiko takes its time."""
    if host.transport == "openssh":
        from .transports import by_openssh

        return by_openssh.connect(host)
    from .transports import by_paramiko

    return by_paramiko.connect(host)
