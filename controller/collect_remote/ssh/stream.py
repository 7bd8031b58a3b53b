"""What a script on the host says, and what it is told: lines, bytes that go into a file, its exit status.

Standard output and error come back as one stream; what we look for in it is led by a marker (see
`collect_agent.events`), everything else is noise and kept for error messages. There is a time-out on every wait.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ..cancel import Cancel
from ..errors import CollectError, TransferError, UnreachableError, one_line
from . import shell, troubles
from .transports import Channel, Connection, Lost

T = TypeVar("T")
LONGEST_LINE = 8 * 1024 * 1024  # bytes; ours are shorter by far
SEND_TIMEOUT_S = 60.0
STATUS_TIMEOUT_S = 30.0
SETTLE_S = 1.0  # after which the end of a connection is known, when the end of what it carried is
FURTHER_S = 60.0  # for a container's engine, on a busy host


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
