"""A bad network: a TCP proxy on loopback with delay, a rate, stalls and cuts, in a thread of its own.

with Link(host.address, host.port, delay_s=0.05) as link:
    connect(port=link.port)
    link.cut()
"""

from __future__ import annotations

import contextlib
import math
import random
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from .line import Connection

ADDRESS = "127.0.0.1"


class Link:
    """What is between ``(address, port)`` on the one side and clients of :attr:`port` on the other.

    delay_s      one-way delay of every byte, each direction; setting up a connection takes its round trips too
    rate         bytes a second, each direction of each connection; None: no limit
    idle_s       a connection on which nothing moved for so many seconds is forgotten, as a firewall does: it stays
                 open on both sides, and what is sent is lost; None: never

    ``to_server`` and ``to_client`` count the bytes delivered, ``connections`` what was accepted, ``cuts`` the moments
    at which live connections were cut.
    """

    def __init__(
        self, address: str, port: int, *, delay_s: float = 0.0, rate: float | None = None, idle_s: float | None = None
    ) -> None:
        self.target = (address, port)
        self.delay_s, self.rate, self.idle_s = delay_s, rate, idle_s
        self.to_server = self.to_client = self.connections = self.cuts = 0
        self.port = 0
        self._listener: socket.socket | None = None
        self.open: set[Connection] = set()
        self._stalled = False
        self._cut_at_bytes: int | None = None
        self._cut_times: deque[float] = deque()  # pauses before each cut to come, in seconds
        self._cut_due = 0.0
        self._calls: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self.selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, name="simhost-link", daemon=True)

    def __enter__(self) -> Link:
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self.selector.register(self._woken, selectors.EVENT_READ)
        self._listen()
        self._running = True
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._end)
        self._thread.join()
        self.selector.close()
        self._wake.close()
        self._woken.close()

    def cut(self) -> None:
        """Reset every connection now, on both sides."""
        self._call(self._cut)

    def cut_after(self, size: int) -> None:
        """Cut when exactly `size` more bytes are delivered, both directions of all connections together; once."""
        self._call(lambda: setattr(self, "_cut_at_bytes", self.to_server + self.to_client + size))

    def cut_at_random(self, dice: random.Random, *, every_s: float, times: int) -> None:
        """Cut at `times` random moments, `every_s` seconds apart on average while there are any."""
        pauses = [dice.expovariate(1 / every_s) for _ in range(times)]

        def schedule() -> None:
            self._cut_times = deque(pauses)
            self._cut_due = time.monotonic() + pauses[0]

        self._call(schedule)

    def stall(self) -> None:
        """Keep and accept connections, and move nothing."""
        self._call(lambda: setattr(self, "_stalled", True))

    def resume(self) -> None:
        """Go on after :meth:`stall`; what was sent in between arrives."""
        self._call(lambda: setattr(self, "_stalled", False))

    def refuse(self) -> None:
        """Refuse new connections; those that are open stay."""
        self._call(self._close_listener)

    def accept(self) -> None:
        """Accept again after :meth:`refuse`, on the same port."""
        self._call(self._listen)

    @property
    def alive(self) -> int:
        """Connections that are open now."""
        return len(self.open)

    def _call(self, work: Callable[[], None]) -> None:
        """Have `work` done by the thread, and wait for it."""
        done: Future[None] = Future()
        self._calls.append((work, done))
        self._wake.send(b"!")
        done.result(timeout=30)

    def _run(self) -> None:
        while self._running:
            for key, events in self.selector.select(self._interest(time.monotonic())):
                if key.fileobj is self._woken:
                    self._serve_calls()
                elif key.fileobj is self._listener:
                    self._accept()
                elif key.data in self.open:  # not cut by one before it
                    key.data.handle(key.fileobj, events)
            self._cut_when_due(time.monotonic())

    def _serve_calls(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(1 << 16)
        while self._calls:
            work, done = self._calls.popleft()
            try:
                work()
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

    def _interest(self, now: float) -> float | None:
        """Tell the selector what we wait for; the seconds until something is due by itself."""
        dues = [self._cut_due] if self._cut_times and self.open else []
        for connection in list(self.open):
            if not self._stalled:
                connection.begin(now)
            dues += connection.watch(now, self._stalled)
        return max(0.0, min(dues) - now) if dues else None

    def _cut_when_due(self, now: float) -> None:
        if self.allowance() <= 0:
            self._cut_at_bytes = None
            self._cut()
        if self._cut_times and self.open and now >= self._cut_due:
            self._cut_times.popleft()
            self._cut_due = now + (self._cut_times[0] if self._cut_times else 0.0)
            self._cut()

    def allowance(self) -> float:
        """How many bytes may still be delivered before a cut that was asked for."""
        return math.inf if self._cut_at_bytes is None else self._cut_at_bytes - self.to_server - self.to_client

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(BlockingIOError, ConnectionError):
            client, _ = self._listener.accept()
            self.connections += 1
            if self._cut_times and not self.open:  # a pause that passed with nothing to cut begins again
                now = time.monotonic()
                self._cut_due = self._cut_due if self._cut_due > now else now + self._cut_times[0]
            self.open.add(Connection(self, client))

    def _cut(self) -> None:
        self.cuts += bool(self.open)
        for connection in list(self.open):
            connection.close(reset=True)

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server((ADDRESS, self.port), backlog=128)
            self._listener.setblocking(False)
            self.port = self._listener.getsockname()[1]
            self.selector.register(self._listener, selectors.EVENT_READ)

    def _close_listener(self) -> None:
        if self._listener is not None:
            self.selector.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def _end(self) -> None:
        self._close_listener()
        for connection in list(self.open):
            connection.close(reset=True)
        self._running = False
