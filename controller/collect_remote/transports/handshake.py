"""What a server said before the connection was encrypted: its banner, and which algorithms it offers (RFC 4253)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import UnreachableError

T = TypeVar("T")
TRIES = 4  # of a login at a server that hangs up
REMEMBERED = 16 * 1024  # bytes; the list of algorithms is far shorter
_KEXINIT = 20
BUSY = ("Exceeded MaxStartups", "Not allowed at this time")  # sshd's own words
KINDS = ("kex", "host key", "cipher", "cipher", "mac", "mac", "compression", "compression")


class NoBanner(Exception):
    """There is no SSH server at the other end, or it has no time for us. `closed`: it hung up without a word."""

    def __init__(self, message: str, *, closed: bool = False) -> None:
        super().__init__(message)
        self.closed = closed


def patiently(log_in: Callable[[], T]) -> T:
    """Ask again, a little later each time, where a server hung up without a word.

    So does one that has too many at its door (MaxStartups); everything else is told at once.
    """
    for left in reversed(range(TRIES)):
        try:
            return log_in()
        except UnreachableError as error:
            if not (left and isinstance(error.__cause__, NoBanner) and error.__cause__.closed):
                raise
        time.sleep(random.uniform(0.5, 1.0) * 2 ** (TRIES - 2 - left))  # noqa: S311 - not all at once again
    raise AssertionError("the last try has returned or raised")


class Overheard:
    """A socket that remembers the first bytes it brought."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self.said = b""
        self.ended = False

    def recv(self, size: int) -> bytes:
        data: bytes = self._sock.recv(size)
        if len(self.said) < REMEMBERED:
            self.said += data
        self.ended = self.ended or not data
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def no_banner(said: bytes, waited_s: float, *, ended: bool) -> NoBanner | None:
    """What is wrong with the first words of a server; None when they are those of SSH, which lines may precede."""
    lines = [line.strip() for line in said.decode("utf-8", "replace").split("\n")]
    if any(line.startswith("SSH-") for line in lines):
        return None
    return strange(lines[0], waited_s, ended=ended)


def strange(first: str, waited_s: float, *, ended: bool) -> NoBanner:
    """`first`: the line that came in place of a banner, if any did."""
    if first.startswith(BUSY):
        return NoBanner(f"turned us away: it said {first[:60]!r}", closed=True)
    if first:
        return NoBanner(f"is not an SSH server: it said {first[:60]!r}")
    if ended:
        return NoBanner("accepted the connection and closed it without an SSH banner", closed=True)
    return NoBanner(f"accepted the connection but sent no SSH banner in {waited_s:.0f} s")


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
