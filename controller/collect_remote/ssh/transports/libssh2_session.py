"""A session of libssh2 over a socket, and the commands that it carries.

ssh2-python lets go of Python's lock, and libssh2 has none: every call of it has to be under the one here. That a signal
has ended a command it does not tell: its status is 0.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ssh2.error_codes import LIBSSH2_ERROR_EAGAIN
from ssh2.exceptions import ChannelFailure, SSH2Error
from ssh2.session import LIBSSH2_SESSION_BLOCK_OUTBOUND, Session

from . import MOST_ERRORS, Login, Lost
from .handshake import acknowledge

T = TypeVar("T")
READ_BYTES = 64 * 1024
CHANNEL_TIMEOUT_S = 30.0
REFUSED_S = 2.0
CLOSE_S = 2.0  # for who is in the middle of a call
LOOK_S = 1.0  # after which errors are made room for that may have filled the window


class Wire:
    """A socket and the session over it, which never waits by itself."""

    def __init__(self, sock: socket.socket) -> None:
        self._session: Any = Session()
        self._session.set_blocking(False)
        self._sock = sock
        self._poll = select.poll()
        self._channels: list[Libssh2Channel] = []
        self._lock = threading.Lock()

    def ask(self, call: Callable[[Any], T]) -> T:
        """``call(session)``, alone. Lost when the session has ended, SSH2Error."""
        with self._lock:
            if self._session is None:
                raise Lost("the connection is closed")
            return call(self._session)

    def done(self, call: Callable[[Any], T], within: float) -> T:
        """What `call` gives when it has come to its end. TimeoutError, and what `ask` raises."""
        until = time.monotonic() + within
        while (found := self.ask(call)) == LIBSSH2_ERROR_EAGAIN:
            if not self.is_ready(until):
                raise TimeoutError("timed out")
        return found

    def is_ready(self, until: float) -> bool:
        """Wait for what the session waits for, up to a time of the monotonic clock, whatever comes. Lost."""
        out = self.ask(lambda session: session.block_directions()) & LIBSSH2_SESSION_BLOCK_OUTBOUND
        left = until - time.monotonic()
        try:
            self._poll.register(self._sock, select.POLLIN | (select.POLLOUT if out else 0))
            return left > 0 and bool(self._poll.poll(left * 1000))
        except ValueError:  # it has no number any more
            raise Lost("the connection is closed") from None

    @property
    def is_open(self) -> bool:
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

        It ends with the last reference, so that there is one here and one a channel, and none in what `ask` calls.
        """
        if not self._lock.acquire(timeout=CLOSE_S):
            return  # a call that does not come back ends with the process
        try:
            if self._session is None:
                return
            with contextlib.suppress(SSH2Error):
                self._session.disconnect()
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)  # what is left of it waits for no answer
            for channel in self._channels:
                channel.let_go()
            self._session = None
            self._sock.close()
        finally:
            self._lock.release()


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
        """A server that allows one session at a time takes a moment to see that the last is over."""
        self._wire.acknowledge()
        until = time.monotonic() + REFUSED_S
        with _told():
            while True:
                try:
                    return Libssh2Channel(self._wire, command)
                except ChannelFailure:
                    if time.monotonic() > until:
                        raise
                time.sleep(0.1)

    def close(self) -> None:
        self._wire.close()


class Libssh2Channel:
    """One exec channel."""

    def __init__(self, wire: Wire, command: str) -> None:
        self._wire = wire
        self._channel: Any = wire.done(lambda session: session.open_session(), within=CHANNEL_TIMEOUT_S)
        self._errors = bytearray()
        wire.belongs(self)
        wire.done(lambda _: self._channel.execute(command), within=CHANNEL_TIMEOUT_S)

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
        with _told(TimeoutError):
            while True:
                self._keep_errors()  # and not between reading and waiting: whichever stream is read takes all in
                count, data = self._wire.ask(lambda _: self._channel.read(most))
                if count != LIBSSH2_ERROR_EAGAIN:
                    return bytes(data)
                if not self._wire.is_ready(min(until, time.monotonic() + LOOK_S)) and time.monotonic() >= until:
                    raise TimeoutError("timed out")

    def errors(self) -> bytes:
        with contextlib.suppress(SSH2Error, Lost):
            self._keep_errors()
        found, self._errors = bytes(self._errors), bytearray()
        return found

    def _keep_errors(self) -> None:
        """Take them out of the window, which they share with the output."""
        while True:
            count, more = self._wire.ask(lambda _: self._channel.read_stderr(READ_BYTES))
            if count <= 0:
                return
            self._errors += more[: max(0, MOST_ERRORS - len(self._errors))]

    def write(self, data: bytes, timeout: float) -> None:
        until = time.monotonic() + timeout
        with _told(TimeoutError):
            while data:
                count, sent = self._wire.ask(lambda _, rest=data: self._channel.write(rest))  # type: ignore[misc]
                data = data[sent:]
                if count == LIBSSH2_ERROR_EAGAIN and not self._wire.is_ready(until):
                    raise TimeoutError("timed out")

    def status(self, timeout: float) -> int:
        try:
            self._wire.done(lambda _: self._channel.wait_closed(), within=timeout)
            return int(self._wire.ask(lambda _: self._channel.get_exit_status()))
        except (SSH2Error, Lost, TimeoutError):
            return -1

    def close(self) -> None:
        with contextlib.suppress(SSH2Error, Lost):
            self._wire.ask(lambda _: self._channel.close())  # which the host hears; its answer nobody waits for

    def let_go(self) -> None:
        self._channel = None


@contextlib.contextmanager
def _told(*as_it_is: type[Exception]) -> Iterator[None]:
    """Lost in place of what libssh2 raises, and of a time-out, but for what is to be told as it is."""
    try:
        yield
    except as_it_is:
        raise
    except (SSH2Error, TimeoutError) as error:
        raise Lost(str(error) or type(error).__name__) from error
