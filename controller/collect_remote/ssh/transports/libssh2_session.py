"""A session of libssh2 over a socket, and the commands that it carries, for one thread at a time.

That a signal has ended a command ssh2-python does not tell: its status is 0.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ssh2.error_codes import LIBSSH2_ERROR_EAGAIN
from ssh2.exceptions import SSH2Error
from ssh2.session import LIBSSH2_SESSION_BLOCK_OUTBOUND, Session

from . import MOST_ERRORS, Login, Lost
from .handshake import acknowledge

T = TypeVar("T")
READ_BYTES = 64 * 1024
CHANNEL_TIMEOUT_S = 30.0
LOOK_S = 1.0  # after which errors are made room for that may have filled the window


class Wire:
    """A socket and the session over it, which never waits by itself."""

    def __init__(self, sock: socket.socket) -> None:
        self.session: Any = Session()
        self.session.set_blocking(False)
        self._sock = sock
        self._poll = select.poll()
        self._channels: list[Libssh2Channel] = []

    def done(self, call: Callable[[], T], within: float) -> T:
        """What `call` gives when it has come to its end. TimeoutError, SSH2Error."""
        until = time.monotonic() + within
        while (found := call()) == LIBSSH2_ERROR_EAGAIN:
            if not self.is_ready(until):
                raise TimeoutError("timed out")
        return found

    def is_ready(self, until: float) -> bool:
        """Wait for what the session waits for, up to a time of the monotonic clock."""
        out = self.session.block_directions() & LIBSSH2_SESSION_BLOCK_OUTBOUND
        self._poll.register(self._sock, select.POLLIN | (select.POLLOUT if out else 0))
        return bool(self._poll.poll(max(0.0, until - time.monotonic()) * 1000))

    @property
    def is_open(self) -> bool:
        if self.session is None:
            return False
        try:
            return self._sock.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def acknowledge(self) -> None:
        """What the login has brought, before a channel is opened: see `handshake.Overheard`."""
        if hasattr(socket, "TCP_QUICKACK"):
            acknowledge(self._sock)

    def belongs(self, channel: Libssh2Channel) -> None:
        self._channels.append(channel)

    def close(self) -> None:
        """The session ends before its socket: it writes to a number, which would soon be another socket's.

        It ends with the last reference, so that there is one here and one a channel, and none in what `done` calls.
        """
        if self.session is None:
            return
        with contextlib.suppress(SSH2Error):
            self.session.disconnect()
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # what is left of it waits for no answer
        for channel in self._channels:
            channel.let_go()
        self.session = None
        self._sock.close()


class Libssh2Connection:
    """A session with the host."""

    pour = None  # every byte is decrypted here

    def __init__(self, wire: Wire, login: Login) -> None:
        self.login = login
        self._wire = wire

    @property
    def is_open(self) -> bool:
        return self._wire.is_open

    def start(self, command: str) -> Libssh2Channel:
        if self._wire.session is None:
            raise Lost("the connection is closed")
        self._wire.acknowledge()
        try:
            return Libssh2Channel(self._wire, command)
        except (SSH2Error, TimeoutError) as error:
            raise _lost(error) from error

    def close(self) -> None:
        self._wire.close()


class Libssh2Channel:
    """One exec channel."""

    def __init__(self, wire: Wire, command: str) -> None:
        self._wire = wire
        self._channel: Any = wire.done(lambda: wire.session.open_session(), within=CHANNEL_TIMEOUT_S)
        self._errors = bytearray()
        wire.belongs(self)
        wire.done(lambda: self._channel.execute(command), within=CHANNEL_TIMEOUT_S)

    def read(self, timeout: float) -> bytes:
        return self._received(READ_BYTES, timeout)

    def into(self, file: int, length: int, timeout: float) -> int:
        data = self._received(min(length, READ_BYTES), timeout)
        written = 0
        while written < len(data):
            written += os.write(file, data[written:])
        return written

    def _received(self, most: int, timeout: float) -> bytes:
        until = time.monotonic() + timeout
        try:
            while self._channel is not None:
                self._keep_errors()  # and not between reading and waiting: whichever stream is read takes all in
                count, data = self._channel.read(most)
                if count != LIBSSH2_ERROR_EAGAIN:
                    return bytes(data)
                if not self._wire.is_ready(min(until, time.monotonic() + LOOK_S)) and time.monotonic() >= until:
                    raise TimeoutError("timed out")
        except SSH2Error as error:
            raise _lost(error) from error
        raise Lost("the connection is closed")

    def errors(self) -> bytes:
        with contextlib.suppress(SSH2Error):
            self._keep_errors()
        found, self._errors = bytes(self._errors), bytearray()
        return found

    def _keep_errors(self) -> None:
        """Take them out of the window, which they share with the output."""
        while self._channel is not None:
            count, more = self._channel.read_stderr(READ_BYTES)
            if count <= 0:
                return
            self._errors += more[: max(0, MOST_ERRORS - len(self._errors))]

    def write(self, data: bytes, timeout: float) -> None:
        until = time.monotonic() + timeout
        try:
            while data:
                if self._channel is None:
                    raise Lost("the connection is closed")
                count, sent = self._channel.write(data)
                data = data[sent:]
                if count == LIBSSH2_ERROR_EAGAIN and not self._wire.is_ready(until):
                    raise TimeoutError("timed out")
        except SSH2Error as error:
            raise _lost(error) from error

    def status(self, timeout: float) -> int:
        if self._channel is None:
            return -1
        try:
            self._wire.done(lambda: self._channel.wait_closed(), within=timeout)
        except (SSH2Error, TimeoutError):
            return -1
        return int(self._channel.get_exit_status())

    def close(self) -> None:
        if self._channel is not None:
            with contextlib.suppress(SSH2Error):
                self._channel.close()  # which the host hears; its answer nobody waits for

    def let_go(self) -> None:
        self._channel = None


def _lost(error: Exception) -> Lost:
    return Lost(str(error) or type(error).__name__)
