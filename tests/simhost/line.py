"""One connection through a :class:`Link`: its two sockets, and what is under way in each direction."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .link import Link

BLOCK = 1 << 16
MOST_UNDERWAY = 64 << 20  # bytes in flight each way, far above what any window and delay here ask for
MOST_AHEAD_S = 0.1  # of a limited rate: what a sender may have in the line's own buffer


class Pipe:
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

    def deliver(self, now: float, most: float) -> int:
        """Send what has arrived, as far as the target takes it and up to `most` bytes; the number of bytes."""
        sent = 0
        while self.blocks and self.blocks[0][0] <= now and sent < most:
            due, block = self.blocks[0]
            if not block:
                self.target.shutdown(socket.SHUT_WR)
                self.done = True
                self.blocks.popleft()
                break
            try:
                taken = self.target.send(block[: int(min(most - sent, BLOCK))])
            except BlockingIOError:
                break
            sent += taken
            self.blocks[0] = (due, block[taken:])
            if taken == len(block):
                self.blocks.popleft()
        self.underway -= sent
        return sent


class Connection:
    """A client's socket, and ours to the server once its handshake would have got there."""

    def __init__(self, link: Link, client: socket.socket) -> None:
        self._link = link
        now = time.monotonic()
        # The kernel answered the client at once. It should have waited a round trip, and the server accepts half of
        # one later: both sides' first bytes are late by that much.
        self._begins = now + 3 * link.delay_s
        self._client, self._server = client, socket.socket()
        self._up = Pipe(client, self._server, now + 2 * link.delay_s)
        self._down = Pipe(self._server, client, now)
        self._begun = self._forgotten = False
        self._moved = now
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
        if not stalled and not self._forgotten and self in self._link.open:
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
        selector = self._link.selector
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
        if link.idle_s is not None and now - self._moved > link.idle_s:
            self._forgotten = True
            return
        self._moved = now
        try:
            for pipe in (self._up, self._down):
                if sock is pipe.source and events & selectors.EVENT_READ and pipe.readable(now):
                    size = BLOCK if link.rate is None else max(1, min(BLOCK, int(link.rate * MOST_AHEAD_S / 2)))
                    with contextlib.suppress(BlockingIOError):
                        pipe.put(pipe.source.recv(size), now, link)
                if sock is pipe.target and events & selectors.EVENT_WRITE:
                    delivered = pipe.deliver(now, link.allowance())
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
        self._link.open.discard(self)
        for sock in (self._client, self._server):
            self._register(sock, 0)
            if reset:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
