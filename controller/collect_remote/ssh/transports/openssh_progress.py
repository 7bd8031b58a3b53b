"""How far the logins of all hops have come, by what `ssh -v` has written, and how long each of them may take.

ssh counts what a jump host asks, and takes to log in, to the time that the next one has for its banner. So it gets time
enough for all of that, and the log shows whose turn it is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from ..ssh_config import Hop

TYPING_S = 120.0  # for somebody who is asked for a password, as sshd's LoginGraceTime
STEP_S = 30.0  # of a login, beyond its connect time-out

SERVER = re.compile(r"^debug1: Remote protocol version [0-9.]+, remote software version (.*)$", re.MULTILINE)
_INSIDE = re.compile(r"^Authenticated to ", re.MULTILINE)


def reached(log: str) -> tuple[int, int]:
    """How many servers have shown a banner, and how many have let us in."""
    return len(SERVER.findall(log)), len(_INSIDE.findall(log))


def login_s(*, asked: bool) -> float:
    """From the banner to the accepted login, in seconds. `asked`: somebody at a terminal may have to type."""
    return STEP_S + (TYPING_S if asked else 0.0)


def banner_s(hops: Sequence[Hop], number: int, *, asked: bool) -> float:
    """What ssh is given until the banner of a hop, in seconds: for everything that lies before it, too."""
    before = sum(hop.connect_timeout + login_s(asked=asked) for hop in hops[:number])
    typing = TYPING_S if asked and hops[0].proxy_command else 0.0  # which may ask as well
    return hops[number].connect_timeout + before + typing


class Progress:
    """Notices when one wait of a login takes longer than it may."""

    def __init__(self, hops: Sequence[Hop], *, asked: bool) -> None:
        self._hops, self._asked = hops, asked
        self._reached, self._since = (0, 0), time.monotonic()

    def is_overdue(self, log: str) -> bool:
        """`log`: all that was written up to now."""
        if (now := reached(log)) != self._reached:
            self._reached, self._since = now, time.monotonic()
        return time.monotonic() - self._since > self._limit_s(*now)

    def _limit_s(self, heard: int, inside: int) -> float:
        if heard == 0:  # ssh has a time-out of its own for that, and says more when it is over
            return banner_s(self._hops, 0, asked=self._asked) + STEP_S
        if heard == inside < len(self._hops):
            return self._hops[heard].connect_timeout
        return login_s(asked=self._asked)
