"""How the connection came about, and how soon the host answers: times in seconds."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import AuthError, CollectError
from ..transports import Login
from .check import Check, failed, ok, warned

SLOW_S = 5.0  # for login scripts, which every command waits for


def opened(login: Login) -> Iterator[Check]:
    """The system's ssh does not tell its steps: all of the login is one then."""
    server = f" ({login.server})" if login.server else ""
    way = " > ".join(step.hop for step in login.steps)
    if not login.steps:
        yield ok("connect", f"connected and logged in by {login.transport}{server}", login.total_s)
        return
    yield ok("connect", f"connected to {way} by {login.transport}{server}", sum(step.connect_s for step in login.steps))
    agreed = sum(step.handshake_s for step in login.steps)
    proved = sum(step.authenticate_s for step in login.steps)
    cipher = f", cipher {login.cipher}" if login.cipher else ""
    yield ok("login", f"keys agreed in {agreed:.2f} s, user accepted in {proved:.2f} s{cipher}", agreed + proved)


def refused(error: CollectError) -> Check:
    return failed("login" if isinstance(error, AuthError) else "connect", error)


def first_output(login: Login) -> Check:
    seconds = login.first_output_s or 0.0
    if seconds <= SLOW_S:
        return ok("first-output", "the first command answers", seconds)
    return warned(
        "first-output",
        f"the first command answers after {seconds:.1f} s, which every command costs",
        "see what its login scripts do: `ssh HOST true` takes as long; or its disks and its name service are slow",
    )
