"""How many log in at one server at once: sshd turns some away when ten wait at its door (MaxStartups 10:30:100).

All of this process count together, whatever they want there: hosts behind one jump host, runs on one host.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .ssh_config import Hop, dial

AT_A_DOOR = 8

_lock = threading.Lock()
_doors: dict[object, threading.BoundedSemaphore] = {}


def door(hop: Hop) -> threading.BoundedSemaphore:
    """What is held from before the connection is made until the login is over."""
    place = hop.proxy_command or (hop.address, hop.port)  # one command, with its tokens, leads through one server
    with _lock:
        return _doors.setdefault(place, threading.BoundedSemaphore(AT_A_DOOR))


@contextlib.contextmanager
def all_doors(hops: Sequence[Hop]) -> Iterator[None]:
    """Those of the whole way, for who goes it in one; in one order for all, so that nobody waits for each other."""
    with contextlib.ExitStack() as held:
        for wanted in sorted({id(door(hop)): door(hop) for hop in hops}.items()):
            held.enter_context(wanted[1])
        yield


@dataclass(frozen=True, slots=True)
class Ahead:
    """A connection to a first hop, made before anybody was ready to log in there; its door is held."""

    socket: socket.socket
    door: threading.BoundedSemaphore

    def hang_up(self) -> None:
        self.socket.close()
        self.door.release()


def dial_ahead(hop: Hop) -> Ahead:
    """Raises what `dial` raises."""
    held = door(hop)
    held.acquire()
    try:
        return Ahead(dial(hop), held)
    except BaseException:
        held.release()
        raise
