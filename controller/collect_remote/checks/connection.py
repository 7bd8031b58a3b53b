"""How the connection came about, and how soon the host answers: times in seconds."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import AuthError, CollectError
from ..ssh.transports import Login
from .check import Check, Subject, ok, passed_on, warned

SLOW_S = 5.0  # for login scripts, which every command waits for

CONNECT = Subject(
    "connect",
    "the host can be reached, through every jump host; the seconds that took",
    "[exit 3](#exit-3-the-host-cannot-be-reached)",
)
LOGIN = Subject(
    "login",
    "keys and user are accepted; the seconds that took. With `transport: openssh` it is part of `connect`",
    "[exit 3](#exit-3-the-host-cannot-be-reached)",
)
FIRST_OUTPUT = Subject(
    "first-output",
    f"the seconds until a command answers; more than {SLOW_S:g} are a warning, for every command waits for the login "
    "scripts",
    "see what its login scripts do: `ssh HOST true` takes as long; or its disks and its name service are slow",
    "the first command answers after {seconds:.1f} s, which every command costs",
)


def opened(login: Login) -> Iterator[Check]:
    """The system's ssh does not tell its steps: all of the login is one then."""
    server = f" ({login.server})" if login.server else ""
    way = " > ".join(step.hop for step in login.steps)
    if not login.steps:
        yield ok(CONNECT, f"connected and logged in by {login.transport}{server}", login.total_s)
        return
    yield ok(CONNECT, f"connected to {way} by {login.transport}{server}", sum(step.connect_s for step in login.steps))
    agreed = sum(step.handshake_s for step in login.steps)
    proved = sum(step.authenticate_s for step in login.steps)
    cipher = f", cipher {login.cipher}" if login.cipher else ""
    yield ok(LOGIN, f"keys agreed in {agreed:.2f} s, user accepted in {proved:.2f} s{cipher}", agreed + proved)


def refused(error: CollectError) -> Check:
    return passed_on(LOGIN if isinstance(error, AuthError) else CONNECT, error)


def first_output(login: Login) -> Check:
    seconds = login.first_output_s or 0.0
    if seconds <= SLOW_S:
        return ok(FIRST_OUTPUT, "the first command answers", seconds)
    return warned(FIRST_OUTPUT, FIRST_OUTPUT.says.format(seconds=seconds))
