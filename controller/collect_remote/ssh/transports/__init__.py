"""A connection to a host and the commands it carries: one interface, and two ways to make it that pass the same tests.

`by_paramiko` is the default; `by_openssh` runs the system's `ssh` for what paramiko cannot do. A third, `by_libssh2`,
is for a question or two, where that will do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

MOST_ERRORS = 64 * 1024  # bytes that are kept of a standard error


class Lost(Exception):
    """The connection is gone, or can carry no further command: in its own words."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one hop of the login took, in seconds: to connect, to agree on keys, to prove who we are."""

    hop: str
    connect_s: float
    handshake_s: float
    authenticate_s: float


@dataclass(slots=True)
class Login:
    """How a connection came about. None, or no steps, for what this way of connecting does not tell.

    `total_s` is everything up to the accepted login; `first_output_s` from the first command to its first byte;
    `link_bytes_s` is what comes over it in a second at most: the window, by the round-trip time that was measured.
    """

    transport: str
    user: str = ""
    total_s: float = 0.0
    steps: tuple[Step, ...] = ()
    server: str | None = None
    cipher: str | None = None
    first_output_s: float | None = field(default=None)
    link_bytes_s: float | None = None


class Channel(Protocol):
    """One running command. Time-outs are seconds."""

    def read(self, timeout: float) -> bytes:
        """Some bytes of its standard output as they come, none at their end. TimeoutError when nothing comes, Lost."""

    def into(self, file: int, length: int, timeout: float) -> int:
        """Some bytes of its standard output into an open file, at most `length`, and how many; 0 at their end.

        OSError when the file cannot be written, TimeoutError when nothing comes, Lost.
        """

    def errors(self) -> bytes:
        """What has come on its standard error since it was asked for last; what is too much is dropped.

        That is the login shell's own: a script of ours has one stream for both.
        """

    def write(self, data: bytes, timeout: float) -> None:
        """All of `data` to its standard input. TimeoutError when it takes nothing, Lost."""

    def status(self, timeout: float) -> int:
        """The exit status; -1 when the connection took it along, or a signal ended the command, or it does not come."""

    def close(self) -> None:
        """Let go of it; never fails."""


class Pouring(Channel, Protocol):
    """One whose standard output is an open file from the login on: `read` tells what has come there.

    `into`, of that file alone, tells how much; what came and was not asked for is there all the same.
    """

    def clear(self) -> None:
        """What has come is taken out of the file, whose next byte will be the next that comes. OSError."""


class Connection(Protocol):
    """An open connection to one host, through every jump host."""

    login: Login

    @property
    def is_open(self) -> bool: ...

    def start(self, command: str) -> Channel:
        """Start `command` by the login shell. Lost when no channel can be had."""

    @property
    def pour(self) -> Callable[[str, int], Pouring] | None:
        """``pour(command, file)`` is the same with its output at the end of a file, open to read and append.

        None where every byte comes through this process.
        """

    def close(self) -> None:
        """Let go of everything that belongs to it, whatever state it is in; never fails."""
