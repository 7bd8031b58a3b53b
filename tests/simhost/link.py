"""A bad network: a TCP proxy on loopback with delay, a rate, stalls and cuts, in a thread of its own.

with Link(host.address, host.port, delay_s=0.05) as link:
    connect(port=link.port)
    link.cut()
"""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

BLOCK = 1 << 16
MOST_UNDERWAY = 64 << 20  # bytes in flight each way, far above what any window and delay here ask for
MOST_AHEAD_S = 0.1  # of a limited rate: what a sender may have in the line's own buffer
ADDRESS = "127.0.0.1"


class Link:
    """What is between ``(address, port)`` on the one side and clients of :attr:`port` on the other.

    delay_s      one-way delay of every byte, each direction; setting up a connection takes its round trips too
    rate         bytes a second, each direction of each connection; None: no limit

    ``to_server`` and ``to_client`` count the bytes delivered, ``connections`` what was accepted, ``cuts`` the moments
    at which live connections were cut.
    """

    def __init__(self, address: str, port: int, *, delay_s: float = 0.0, rate: float | None = None) -> None:
        self.target = (address, port)
        self.delay_s, self.rate = delay_s, rate
        self.to_server = self.to_client = self.connections = self.cuts = 0
        self.port = 0
        self._listener: socket.socket | None = None
        self._open: set[_Connection] = set()
        self._stalled = False
        self._cut_at_bytes: int | None = None
        self._cut_times: deque[float] = deque()  # pauses before each cut to come, in seconds
        self._cut_due = 0.0
        self._calls: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, name="simhost-link", daemon=True)

    def __enter__(self) -> Link:
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._listen()
        self._running = True
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._end)
        self._thread.join()
        self._selector.close()
        self._wake.close()
        self._woken.close()

    def cut(self) -> None:
        """Reset every connection now, on both sides."""
        self._call(self._cut)

    def cut_after(self, size: int) -> None:
        """Cut when `size` more bytes have been delivered, both directions of all connections together; once."""
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
        return len(self._open)

    def _call(self, work: Callable[[], None]) -> None:
        """Have `work` done by the thread, and wait for it."""
        done: Future[None] = Future()
        self._calls.append((work, done))
        self._wake.send(b"!")
        done.result(timeout=30)

    def _run(self) -> None:
        while self._running:
            for key, events in self._selector.select(self._interest(time.monotonic())):
                if key.fileobj is self._woken:
                    self._serve_calls()
                elif key.fileobj is self._listener:
                    self._accept()
                elif key.data in self._open:  # not cut by one before it
                    key.data.handle(key.fileobj, events)
            self._cut_when_due(time.monotonic())

    def _serve_calls(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(BLOCK)
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
        dues = [self._cut_due] if self._cut_times and self._open else []
        for connection in list(self._open):
            if not self._stalled:
                connection.begin(now)
            dues += connection.watch(now, self._stalled)
        return max(0.0, min(dues) - now) if dues else None

    def _cut_when_due(self, now: float) -> None:
        if self._cut_at_bytes is not None and self.to_server + self.to_client >= self._cut_at_bytes:
            self._cut_at_bytes = None
            self._cut()
        if self._cut_times and self._open and now >= self._cut_due:
            self._cut_times.popleft()
            self._cut_due = now + (self._cut_times[0] if self._cut_times else 0.0)
            self._cut()

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(BlockingIOError, ConnectionError):
            client, _ = self._listener.accept()
            self.connections += 1
            if self._cut_times and not self._open:  # a pause that passed with nothing to cut begins again
                now = time.monotonic()
                self._cut_due = self._cut_due if self._cut_due > now else now + self._cut_times[0]
            self._open.add(_Connection(self, client))

    def _cut(self) -> None:
        self.cuts += bool(self._open)
        for connection in list(self._open):
            connection.close(reset=True)

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server((ADDRESS, self.port), backlog=128)
            self._listener.setblocking(False)
            self.port = self._listener.getsockname()[1]
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def _end(self) -> None:
        self._close_listener()
        for connection in list(self._open):
            connection.close(reset=True)
        self._running = False


class _Pipe:
    """One direction: blocks, each with the moment at which it arrives. An empty block is the end of the stream."""

    def __init__(self, source: socket.socket, target: socket.socket, starts: float) -> None:
        self.source, self.target = source, target
        self.blocks: deque[tuple[float, memoryview]] = deque()
        self.underway = 0
        self.sent_until = starts  # when the line has taken up all that came so far
        self.ended = self.done = False

    def readable(self, now: float) -> bool:
        """Whether the line takes more from the source."""
        return not self.ended and self.underway < MOST_UNDERWAY and self.sent_until - now <= MOST_AHEAD_S

    def put(self, data: bytes, now: float, link: Link) -> None:
        begins = max(now, self.sent_until)
        self.sent_until = begins + (len(data) / link.rate if link.rate else 0.0)
        self.blocks.append((self.sent_until + link.delay_s, memoryview(data)))
        self.underway += len(data)
        self.ended = not data

    def deliver(self, now: float) -> int:
        """Send what has arrived, as far as the target takes it; the number of bytes."""
        sent = 0
        while self.blocks and self.blocks[0][0] <= now:
            due, block = self.blocks[0]
            if not block:
                self.target.shutdown(socket.SHUT_WR)
                self.done = True
                self.blocks.popleft()
                break
            try:
                taken = self.target.send(block)
            except BlockingIOError:
                break
            sent += taken
            self.blocks[0] = (due, block[taken:])
            if taken == len(block):
                self.blocks.popleft()
        self.underway -= sent
        return sent


class _Connection:
    """A client's socket, and ours to the server once its handshake would have got there."""

    def __init__(self, link: Link, client: socket.socket) -> None:
        self._link = link
        now = time.monotonic()
        # The kernel answered the client at once. It should have waited a round trip, and the server accepts half of
        # one later: both sides' first bytes are late by that much.
        self._begins = now + 3 * link.delay_s
        self._client, self._server = client, socket.socket()
        self._up = _Pipe(client, self._server, now + 2 * link.delay_s)
        self._down = _Pipe(self._server, client, now)
        self._begun = False
        for sock in (self._client, self._server):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def begin(self, now: float) -> None:
        """Connect to the server when it is time."""
        if not self._begun and now >= self._begins:
            self._begun = True
            self._server.settimeout(5.0)
            try:
                self._server.connect(self._link.target)
                self._server.setblocking(False)
            except OSError:
                self.close(reset=True)

    def watch(self, now: float, stalled: bool) -> list[float]:
        """Say to the selector which socket is waited for; the moments at which something arrives by itself."""
        dues = []
        wanted = {self._client: 0, self._server: 0}
        if not stalled and self in self._link._open:
            for pipe in (self._up, self._down):
                if pipe is self._up or self._begun:
                    if pipe.readable(now):
                        wanted[pipe.source] |= selectors.EVENT_READ
                    elif not pipe.ended and pipe.sent_until - now > MOST_AHEAD_S:
                        dues.append(pipe.sent_until - MOST_AHEAD_S)
                if pipe.blocks and pipe.blocks[0][0] > now:
                    dues.append(pipe.blocks[0][0])
                elif pipe.blocks and self._begun:
                    wanted[pipe.target] |= selectors.EVENT_WRITE
            if not self._begun:
                dues.append(self._begins)
        for sock, events in wanted.items():
            self._register(sock, events)
        return dues

    def _register(self, sock: socket.socket, events: int) -> None:
        selector = self._link._selector
        known: Any = selector.get_map().get(sock.fileno()) if sock.fileno() >= 0 else None
        if known is None and events:
            selector.register(sock, events, self)
        elif known is not None and not events:
            selector.unregister(sock)
        elif known is not None and known.events != events:
            selector.modify(sock, events, self)

    def handle(self, sock: object, events: int) -> None:
        """Move what can be moved; a side that reset the connection resets the other."""
        link, now = self._link, time.monotonic()
        try:
            for pipe in (self._up, self._down):
                if sock is pipe.source and events & selectors.EVENT_READ and pipe.readable(now):
                    size = BLOCK if link.rate is None else max(1, min(BLOCK, int(link.rate * MOST_AHEAD_S / 2)))
                    with contextlib.suppress(BlockingIOError):
                        pipe.put(pipe.source.recv(size), now, link)
                if sock is pipe.target and events & selectors.EVENT_WRITE:
                    delivered = pipe.deliver(now)
                    if pipe is self._up:
                        link.to_server += delivered
                    else:
                        link.to_client += delivered
        except OSError:
            self.close(reset=True)
        else:
            if self._up.done and self._down.done:
                self.close(reset=False)

    def close(self, *, reset: bool) -> None:
        """Close both sockets, politely or with a reset."""
        self._link._open.discard(self)
        for sock in (self._client, self._server):
            self._register(sock, 0)
            if reset:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
