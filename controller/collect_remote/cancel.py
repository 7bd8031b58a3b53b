"""Asking a command to leave that runs in another thread, as a Ctrl-C asks one in the main thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

LOOK_S = 0.25  # after which a wait looks whether it has been asked to leave
T = TypeVar("T")


class Cancel:
    """One Ctrl-C, for whoever was given this: the next wait in each of their threads raises KeyboardInterrupt, once."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._heard = threading.local()

    def set(self) -> None:
        self._asked.set()

    @property
    def is_set(self) -> bool:
        return self._asked.is_set()

    def sleep(self, seconds: float) -> None:
        """KeyboardInterrupt."""
        if not self._has_heard:
            self._asked.wait(seconds)
            self._look()
        else:
            time.sleep(seconds)

    def wait(self, ask: Callable[[float], T], timeout: float) -> T:
        """What `ask` gives within `timeout` seconds, else its TimeoutError. KeyboardInterrupt."""
        until = time.monotonic() + timeout
        while True:
            self._look()
            left = until - time.monotonic()
            try:
                return ask(max(0.0, min(left, LOOK_S)))
            except TimeoutError:
                if left <= LOOK_S:
                    raise

    def _look(self) -> None:
        if self._asked.is_set() and not self._has_heard:
            self._heard.already = True
            raise KeyboardInterrupt

    @property
    def _has_heard(self) -> bool:
        return getattr(self._heard, "already", False)
