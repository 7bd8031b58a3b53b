"""One SSH connection to a host, which can be opened again: run a script, or stream with it. Strict host keys.

Everything is a bash script on the standard input of one exec channel (see `shell`): nothing has to survive the quoting
rules of the login shell, and a banner changes nothing.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from ..cancel import Cancel
from ..errors import ConnectError, UnreachableError
from ..inventory import Host
from ..parallel import in_background
from . import shell
from .stream import Stream
from .transports import Channel, Connection, Login, Lost

if TYPE_CHECKING:
    from .doors import Ahead
    from .pour import Pour
    from .ssh_config import Hop

_ENOUGH = 65536  # bytes
_IMPORTED = threading.Event()  # paramiko and what needs it


class Remote:
    """A connection that can be opened again. Use as a context manager.

    `cancel`: what ends any wait for the host with KeyboardInterrupt. `brief`: it is for a question or two, one after
    the other, by the lightest transport that will do. `on_loss`: told of every loss that is to be made good.
    """

    def __init__(
        self,
        host: Host,
        cancel: Cancel | None = None,
        *,
        brief: bool = False,
        on_loss: Callable[[ConnectError], None] = lambda _: None,
    ) -> None:
        self.host, self._brief, self.on_loss = host, brief, on_loss
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
        self._connection = _connect(self.host, brief=self._brief)

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
    """What has come of it meanwhile. Lost when that ends, as of one that waited too long; it is closed then.

    One that prints without end is read no further than `_ENOUGH`: whether it has ended is not to be seen.
    """
    said = b""
    try:
        while len(said) < _ENOUGH:
            more = channel.read(0.0)
            if not more:
                raise Lost("it has ended")
            said += more
    except TimeoutError:
        pass
    except BaseException:
        channel.close()
        raise
    return said


def _connect(host: Host, *, brief: bool) -> Connection:
    """By the way that the inventory names, which alone is imported: paramiko takes its time."""
    if host.transport == "openssh":
        from .transports import by_openssh

        return by_openssh.connect(host)
    if brief and host.transport is None and (connection := _lightly(host)) is not None:
        return connection
    if _IMPORTED.is_set():
        from .ssh_config import route
        from .transports import by_paramiko

        return by_paramiko.connect(route(host), None)
    way = in_background(lambda: _on_our_way(host))  # which takes about as long as the import
    from .transports import by_paramiko

    _IMPORTED.set()
    return by_paramiko.connect(*way.result())


def _lightly(host: Host) -> Connection | None:
    """By libssh2, where it is installed and will do."""
    libssh2 = _libssh2()
    if libssh2 is None:
        return None
    from .ssh_config import route

    connection: Connection | None = libssh2.connect(route(host))
    return connection


@functools.cache
def _libssh2() -> ModuleType | None:
    try:
        from .transports import by_libssh2
    except ImportError:
        return None
    return by_libssh2


def _on_our_way(host: Host) -> tuple[list[Hop], Future[Ahead] | None]:
    from .doors import dial_ahead
    from .ssh_config import route

    hops = route(host)
    return hops, None if hops[0].proxy_command else in_background(lambda: dial_ahead(hops[0]))
