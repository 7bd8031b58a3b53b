"""After a connection broke: when to try again, and when to give up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ..errors import ConnectError, HostKeyError, LoginHangs, UnreachableError
from .remote import Remote

LONGEST_PAUSE_S = 15.0
SHORT_S = 60.0  # for what takes a moment: whoever waits for it is sitting there

T = TypeVar("T")


class Tenacity:
    """Connects again with growing pauses until `limit_s` seconds have passed since the last sign of life."""

    def __init__(self, remote: Remote, limit_s: float = SHORT_S) -> None:
        self._remote, self._limit_s = remote, limit_s
        self.sign_of_life()

    def sign_of_life(self) -> None:
        """Something came: what breaks from now on is a new loss."""
        self._since, self._pause = time.monotonic(), 0.0

    def persist(self, ask: Callable[[], T]) -> T:
        """What `ask` returns, asked again after every loss. Raises the last loss when the time is over.

        A login that hangs is none: it would again.
        """
        while True:
            try:
                return ask()
            except LoginHangs:
                raise
            except UnreachableError as lost:
                self.recover(lost)

    def recover(self, lost: ConnectError) -> None:
        """Return with a new connection. Raises `lost`, or what connecting failed with last, when the time is over.

        A refused login is no answer to one that was let in before: a home that is away or an agent that is locked
        comes back. Another host key is.
        """
        told = False
        while True:
            if self._since + self._limit_s - time.monotonic() < self._pause:
                raise lost
            if not told:
                self._remote.on_loss(lost)
                told = True
            self._remote.pause(self._pause)
            self._pause = min(max(0.5, 2 * self._pause), LONGEST_PAUSE_S)
            self._remote.close()
            try:
                self._remote.open()
            except HostKeyError:
                raise
            except ConnectError as error:
                lost = error
            else:
                return
