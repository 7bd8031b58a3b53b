"""The command line as a process: parses, calls, turns errors into lines and an exit status."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from ..errors import CollectError, Interrupted, internal
from .arguments import parser
from .say import complain, mute, prepare


def run() -> int:
    """The command as a process of its own."""
    # paramiko imports invoke for a part of its ssh_config parser that `ssh -G` replaces here, and takes half of its
    # own import time for it. It does without where there is none.
    sys.modules["invoke"] = None  # type: ignore[assignment]
    # What is there stays, and most of what comes is data: to look through it for cycles takes a twentieth of a start.
    gc.freeze()
    gc.set_threshold(10_000)
    return main()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status (the README lists them)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
            signal.signal(number, _interrupt)
    debug, as_json = "--debug" in given, "--json" in given
    try:
        options = parser().parse_args(given)
        prepare()
        status: int = options.command(options)
    except CollectError as error:
        if debug:
            raise
        complain(error, as_json)
        return error.exit_code
    except KeyboardInterrupt:
        complain(Interrupted("interrupted"), as_json)
        return Interrupted.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nothing is left to say, not even at shutdown.
        mute()
        return 141
    except Exception as error:
        if debug:
            raise
        complain(internal(error), as_json)
        return CollectError.exit_code
    return status


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
