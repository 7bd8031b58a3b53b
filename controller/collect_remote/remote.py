"""One SSH connection to a host: run a script, or stream with it. Strict host keys; a time-out on every wait.

Everything is a bash script on the standard input of one exec channel (see `shell`): nothing has to survive the quoting
rules of the login shell, and a banner changes nothing. Standard output and error come back as one stream; what we look
for in it is led by a marker (see `collect_agent.events`), everything else is noise and kept for error messages.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from . import connection_troubles as troubles
from . import shell
from .cancel import Cancel
from .errors import CollectError, TransferError, UnreachableError, one_line
from .inventory import Host
from .parallel import in_background
from .transports import Channel, Connection, Login, Lost

if TYPE_CHECKING:
    from .doors import Ahead
    from .pour import Pour
    from .ssh_config import Hop

T = TypeVar("T")
LONGEST_LINE = 8 * 1024 * 1024  # bytes; ours are shorter by far
SEND_TIMEOUT_S = 60.0
STATUS_TIMEOUT_S = 30.0
SETTLE_S = 1.0  # after which the end of a connection is known, when the end of what it carried is
FURTHER_S = 60.0  # for a container's engine, on a busy host
_IMPORTED = threading.Event()  # paramiko and what needs it


class Stream:
    """One running script: its output line by line or byte by byte, its input, its exit status.

    `greeting` is the end of what the login printed before the script began, `noise` what readers leave aside later;
    `first` is output that was read before. `cancel`: what ends a wait with KeyboardInterrupt.
    """

    def __init__(
        self, channel: Channel, connection: Connection, where: str, first: bytes = b"", cancel: Cancel | None = None
    ) -> None:
        self._channel, self._connection, self._where = channel, connection, where
        self._cancel = cancel
        self._started = time.monotonic()
        self._buffer = bytearray(first)
        self._begun = False
        self._further: list[Callable[[Sequence[str], int | None], CollectError]] = []
        self.greeting: deque[str] = deque(maxlen=20)
        self.noise: deque[str] = deque(maxlen=20)

    def lines(self, timeout: float, within: float | None = None) -> Iterator[bytes]:
        """Lines without their ends, until the script ends; one that never ends is dropped.

        UnreachableError after `timeout` seconds of silence, when it is not over `within` seconds, or when it was not
        the script that ended but the connection; what `not_begun` of `shell` gives when the script does not begin.
        """
        self._begin()
        self._begin_further()
        yield from self._lines(timeout, within)

    def expect(self, not_begun: Callable[[Sequence[str], int | None], CollectError]) -> None:
        """The script hands its input on to another bash, in a container.

        `not_begun` gives the error when that one does not begin, from what was said instead and the exit status (None:
        it goes on).
        """
        self._further.append(not_begun)

    def _begin_further(self) -> None:
        """Read up to where the script begins that the first one has handed on to."""
        while self._further:
            said: deque[str] = deque(maxlen=20)
            started = time.monotonic()
            try:
                for line in self._lines(FURTHER_S, FURTHER_S):
                    said.append(one_line(line.decode("utf-8", "replace")))
                    if said[-1] == shell.BEGUN:
                        self._further.pop()
                        break
                else:
                    raise self._further[-1](said, self._own_status())
            except UnreachableError as error:
                if time.monotonic() - started < FURTHER_S - 0.5:
                    raise
                raise self._further[-1](said, None) from error

    def _begin(self) -> None:
        """Read up to where the script begins, once."""
        if self._begun:
            return
        try:
            for line in self._lines(shell.BEGIN_S, shell.BEGIN_S):
                said = one_line(line.decode("utf-8", "replace"))
                if said == shell.BEGUN:
                    self._begun = True
                    return
                self.greeting.append(said)
        except UnreachableError as error:
            if time.monotonic() - self._started < shell.BEGIN_S - 0.5:
                raise
            self._buffer += self._channel.errors()
            question = self._buffer.rpartition(b"\n")[2]  # has no line end
            self.greeting.append(one_line(question.decode("utf-8", "replace")))
            raise shell.not_begun(self._login, self.greeting, None) from error
        raise shell.not_begun(self._login, self.greeting, self._own_status())

    def _lines(self, timeout: float, within: float | None) -> Iterator[bytes]:
        until = math.inf if within is None else time.monotonic() + within
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise UnreachableError(f"{self._where}: not over after {within:g} s", "check the load of the host")
            end = self._buffer.find(b"\n")
            if end >= 0:
                line = bytes(self._buffer[:end]).removesuffix(b"\r")
                del self._buffer[: end + 1]
                yield line
                continue
            if len(self._buffer) > LONGEST_LINE:
                self._buffer.clear()
            try:
                more = self._fill(min(timeout, left))
            except UnreachableError as error:
                if left < timeout and isinstance(error.__cause__, TimeoutError):
                    continue  # the time is over
                raise
            if not more:
                if errors := self._channel.errors():
                    self._buffer += b"\n" * bool(self._buffer) + errors
                    continue
                if self._buffer:
                    yield bytes(self._buffer)
                if self.status() == -1 and not self._connection.is_open:
                    raise self._broke()
                return

    def copy(self, file: int, length: int, timeout: float) -> Iterator[None]:
        """Exactly `length` bytes into an open file, some more at every turn.

        UnreachableError when they end early or stall, OSError when the file cannot be written.
        """
        self._begin()
        self._begin_further()
        while length:
            if self._buffer:
                moved = os.write(file, self._buffer[:length])
                del self._buffer[:moved]
            elif not (moved := self._moved(file, length, timeout)):
                early = f"{self._where}: the stream ended {length} bytes early"
                if self.status() != -1:  # by itself, on a sound connection: asking again would give the same
                    raise TransferError(early, "look at the run's directory on the host")
                raise UnreachableError(early)
            length -= moved
            yield

    def send(self, data: bytes) -> None:
        try:
            self._channel.write(data, SEND_TIMEOUT_S)
        except TimeoutError as error:
            raise UnreachableError(
                f"{self._where}: takes nothing for {SEND_TIMEOUT_S:g} s", "check the network and the load of the host"
            ) from error
        except Lost as lost:
            raise self._broke(lost) from lost

    def hand_over(self, script: str) -> None:
        """Send what a bash that waits for `script` gets (see `shell`); the stream is closed when it cannot be.

        Whoever has ended already takes nothing any more: what it said instead is to be read.
        """
        try:
            self.send(shell.stdin(script))
        except BaseException as error:
            if isinstance(error.__cause__, Lost) and self._connection.is_open:
                return
            self.close()
            raise

    def status(self) -> int:
        """Exit status; -1 when the connection took it along, or it does not come."""
        return self._channel.status(STATUS_TIMEOUT_S)

    def _own_status(self) -> int:
        """The exit status, -1 for a signal. UnreachableError when it was the connection that ended."""
        status, until = self.status(), time.monotonic() + SETTLE_S
        while status == -1 and time.monotonic() < until:
            if not self._connection.is_open:
                raise self._broke()
            time.sleep(SETTLE_S / 20)
        return status

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self, timeout: float) -> bool:
        data = self._wait(self._channel.read, timeout)
        login = self._connection.login
        if data and login.first_output_s is None:
            login.first_output_s = time.monotonic() - self._started
        self._buffer += data
        return bool(data)

    def _moved(self, file: int, length: int, timeout: float) -> int:
        return self._wait(lambda seconds: self._channel.into(file, length, seconds), timeout)

    def _wait(self, ask: Callable[[float], T], timeout: float) -> T:
        try:
            return self._cancel.wait(ask, timeout) if self._cancel else ask(timeout)
        except TimeoutError as error:
            raise troubles.SILENT(host=self._where, seconds=timeout) from error
        except Lost as lost:
            raise self._broke(lost) from lost

    @property
    def _login(self) -> str:
        return f"{self._connection.login.user}@{self._where}"

    def _broke(self, why: Lost | None = None) -> UnreachableError:
        return troubles.LOST(host=self._where, why=f": {why}" if why else "")


class Remote:
    """A connection that can be opened again. Use as a context manager.

    `cancel`: what ends any wait for the host with KeyboardInterrupt.
    """

    def __init__(self, host: Host, cancel: Cancel | None = None) -> None:
        self.host = host
        self._cancel = cancel
        self._connection: Connection | None = None
        self._next: _Prepared | None = None

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
        if self._next is not None:
            self._next.discard()
            self._next = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._connection.is_open

    @property
    def login(self) -> Login | None:
        """How the present connection came about: its times, the server, the cipher."""
        return self._connection.login if self._connection else None

    def pause(self, seconds: float) -> None:
        if self._cancel:
            self._cancel.sleep(seconds)
        else:
            time.sleep(seconds)

    def prepare(self) -> None:
        """Another script is to follow soon: its shell is made ready meanwhile, which saves its round trips."""
        if self._connection is not None and self._next is None:
            self._next = _Prepared(self._connection)

    def stream(self, script: str) -> Stream:
        """Start `script` (bash) and leave its input open. UnreachableError when no channel can be had."""
        stream = self.shell()
        stream.hand_over(script)
        return stream

    def pour(self, script: str, file: int) -> Pour | None:
        """The same with its output at the end of `file` (see `pour`); None where the connection cannot do that."""
        from .pour import Pour

        where, connection = self.host.name, self._connection
        if connection is None or connection.pour is None:
            return None
        try:
            channel = connection.pour(shell.COMMAND, file)
        except Lost as error:
            raise _not_started(where, error) from error
        stream = Pour(channel, connection, where, self._cancel)
        stream.hand_over(script)
        return stream

    def shell(self) -> Stream:
        """A bash that waits for a script to be handed over."""
        where, connection = self.host.name, self._connection
        if connection is None:
            raise UnreachableError(f"{where}: not connected")
        prepared, self._next = self._next, None
        try:
            channel, first = (prepared and prepared.take()) or (connection.start(shell.COMMAND), b"")
        except Lost as error:
            raise _not_started(where, error) from error
        return Stream(channel, connection, where, first, self._cancel)


def _not_started(where: str, lost: Lost) -> UnreachableError:
    return UnreachableError(f"{where}: cannot start a command: {lost}", "try again")


class _Prepared:
    """A shell that is being started in the background, up to its first word: until then it may still be refused."""

    def __init__(self, connection: Connection) -> None:
        self._started = in_background(lambda: _greeted(connection.start(shell.COMMAND)))

    def take(self) -> tuple[Channel, bytes] | None:
        """It and what it said, or None where there is none: a server may allow one at a time; it may have ended."""
        with contextlib.suppress(Lost, OSError):  # OSError: out of processes or files here; TimeoutError: it hangs
            channel, first = self._started.result()
            return channel, first + _since(channel)
        return None

    def discard(self) -> None:
        if taken := self.take():
            taken[0].close()


def _greeted(channel: Channel) -> tuple[Channel, bytes]:
    """`channel` with the first that comes of it. Lost when that is its end, TimeoutError; it is closed then.

    What an rc file may ask for has to be there meanwhile: to have it twice does no harm.
    """
    try:
        channel.write(shell.HEAD, shell.BEGIN_S)
        if first := channel.read(shell.BEGIN_S):
            return channel, first
    except BaseException:
        channel.close()
        raise
    channel.close()
    raise Lost("it ended without a word")


def _since(channel: Channel) -> bytes:
    """What has come of it meanwhile. Lost when that is its end, as of one that waited too long; it is closed then."""
    try:
        if more := channel.read(0.0):
            return more
    except TimeoutError:
        return b""
    except BaseException:
        channel.close()
        raise
    channel.close()
    raise Lost("it has ended")


def _connect(host: Host) -> Connection:
    """By the way that the inventory names, which alone is imported: paramiko takes its time."""
    if host.transport == "openssh":
        from .transports import by_openssh

        return by_openssh.connect(host)
    if _IMPORTED.is_set():
        from .ssh_config import route
        from .transports import by_paramiko

        return by_paramiko.connect(route(host), None)
    way = in_background(lambda: _on_our_way(host))  # which takes about as long as the import
    from .transports import by_paramiko

    _IMPORTED.set()
    return by_paramiko.connect(*way.result())


def _on_our_way(host: Host) -> tuple[list[Hop], Future[Ahead] | None]:
    from .doors import dial_ahead
    from .ssh_config import route

    hops = route(host)
    return hops, None if hops[0].proxy_command else in_background(lambda: dial_ahead(hops[0]))
