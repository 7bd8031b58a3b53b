"""What a server said before the connection was encrypted: its banner, and which algorithms it offers (RFC 4253)."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ...errors import UnreachableError
from .. import troubles

T = TypeVar("T")
FAST_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")  # measured; to be asked for first
TRIES = 4  # of a login at a server that hangs up
REMEMBERED = 16 * 1024  # bytes; the list of algorithms is far shorter
_KEXINIT = 20
BUSY = ("Exceeded MaxStartups", "Not allowed at this time")  # sshd's own words
KINDS = ("kex", "host key", "cipher", "cipher", "mac", "mac", "compression", "compression")


class NoBanner(Exception):
    """There is no SSH server at the other end."""


class HungUp(Exception):
    """There is one, and it had no time for us, or the connection broke before we were logged in."""


def patiently(log_in: Callable[[], T]) -> T:
    """Ask again, a little later each time, where it is a `HungUp` that an UnreachableError comes from.

    A server that has too many at its door (MaxStartups) is the usual one; everything else is told at once.
    """
    for left in reversed(range(TRIES)):
        try:
            return log_in()
        except UnreachableError as error:
            if not (left and isinstance(error.__cause__, HungUp)):
                raise
        time.sleep(random.uniform(0.5, 1.0) * 2 ** (TRIES - 2 - left))  # noqa: S311 - not all at once again
    raise AssertionError("the last try has returned or raised")


class Overheard:
    """A socket that remembers the first bytes it brought, takes them in few pieces, and acknowledges them at once.

    A server keeps a small packet back until the one before is acknowledged (RFC 896), and Linux takes 40 ms for that.
    """

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._acknowledges = _by_tcp(sock) and hasattr(socket, "TCP_QUICKACK")
        self._brought = b""  # and not yet asked for
        self.said = b""
        self.ended = False

    def recv(self, size: int) -> bytes:
        if not self._brought:
            if len(self.said) >= REMEMBERED:
                return self._received(size)
            self._brought = self._received(max(size, REMEMBERED))
            self.said += self._brought
            if self._acknowledges:
                acknowledge(self._sock)
        data, self._brought = self._brought[:size], self._brought[size:]
        return data

    def _received(self, size: int) -> bytes:
        try:
            data: bytes = self._sock.recv(size)
        except ConnectionError:
            self.ended = True
            raise
        self.ended = self.ended or not data
        return data

    def send(self, data: bytes) -> int:
        try:
            return int(self._sock.send(data))
        except ConnectionError:  # a server that hung up is noticed by whoever speaks first
            self.ended = True
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def _by_tcp(sock: Any) -> bool:
    """Not every way to a server is."""
    return isinstance(sock, socket.socket) and sock.family != socket.AF_UNIX


def acknowledge(sock: socket.socket) -> None:
    """At once, this once."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def no_banner(said: bytes, waited_s: float, *, ended: bool) -> NoBanner | HungUp | None:
    """What is wrong with the first words of a server; None when they are those of SSH, which lines may precede."""
    lines = [line.strip() for line in said.decode("utf-8", "replace").split("\n")]
    if any(line.startswith("SSH-") for line in lines):
        return None
    return strange(lines[0], waited_s, ended=ended)


def strange(first: str, waited_s: float, *, ended: bool) -> NoBanner | HungUp:
    """`first`: the line that came in place of a banner, if any did."""
    if first.startswith(BUSY):
        return HungUp(f"turned us away: it said {first[:60]!r}")
    if first:
        return NoBanner(f"is not an SSH server: it said {first[:60]!r}")
    if ended:
        return HungUp("accepted the connection and closed it without an SSH banner")
    return NoBanner(f"accepted the connection but sent no SSH banner in {waited_s:.0f} s")


def turned_away(place: str, cause: NoBanner | HungUp) -> UnreachableError:
    """The error that tells it, and keeps `cause` for `patiently`."""
    error = (troubles.NO_SERVER if isinstance(cause, NoBanner) else troubles.HUNG_UP)(place=place, what=cause)
    error.__cause__ = cause
    return error


def offered(said: bytes) -> dict[str, list[str]]:
    """The server's algorithms by kind ("kex", "host key", "cipher", "mac"); empty when it did not come to that."""
    _, _, packet = said[said.find(b"SSH-") :].partition(b"\n")
    if len(packet) < 22 or packet[5] != _KEXINIT:
        return {}
    rest, found = packet[22:], {}
    for kind in KINDS:
        end = 4 + int.from_bytes(rest[:4], "big")
        found[kind] = rest[4:end].decode("ascii", "replace").split(",")
        rest = rest[end:]
    return found
