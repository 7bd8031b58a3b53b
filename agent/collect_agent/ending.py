"""How a process has ended, in words, by its exit status as `subprocess` and torchrun tell it. Pure."""

from __future__ import annotations

import signal


def ending(status: int) -> str:
    """`killed by SIGKILL` or `exit status 1`; a shell's own status says what has ended that which it ran."""
    if status < 0:
        return "killed by " + _name(-status)
    if 0 < status - 128 <= signal.SIGSYS:
        return "exit status {}, a shell's for {}".format(status, _name(status - 128))
    return "exit status {}".format(status)


def how_ended(status: int) -> str:
    """The same as a predicate."""
    return ("was " if status < 0 else "ended with ") + ending(status)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal {}".format(number)
