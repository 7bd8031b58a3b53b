"""The start of a Python: say that it is there, and wait for the modules that matter."""

from __future__ import annotations

import atexit
import os
import sys

from . import finder, receipts, request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional


def start(path: str) -> None:
    """Begin with the request in the file `path`; OSError, KeyError, TypeError or ValueError when there is none."""
    asked = request.read(path)
    receipts.begin(asked.receipts)
    alive()
    os.register_at_fork(after_in_child=alive)
    atexit.register(ended)
    finder.install(actions(asked))


def alive() -> None:
    """A Python is there, which may be one that was forked."""
    receipts.say(
        "alive", pid=os.getpid(), ppid=os.getppid(), rank=rank(), argv=command_line(), executable=sys.executable,
        python="{}.{}.{}".format(*sys.version_info[:3]),
    )  # fmt: skip


def ended() -> None:
    """This Python ends; with the exception that nobody has caught, if that is why."""
    error = getattr(sys, "last_value", None)
    raised = None if error is None else "{}: {}".format(type(error).__name__, error)[:300]
    receipts.say("exit", raised=raised)


def rank() -> Optional[int]:
    """What a launcher of several ranks calls this one."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return None
    told = (os.environ.get(name, "") for name in ("RANK", "RANK_ID", "LOCAL_RANK"))
    return next((int(number) for number in told if number.isdigit()), None)


def command_line() -> List[str]:
    """As the process was started: `sys.argv` is not made yet, or not final, when a Python starts."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return list(getattr(sys, "argv", []))


def actions(asked: request.Request) -> Dict[str, finder.Action]:
    """What is to be done behind which import. What it takes is imported then: most Pythons never get there."""

    def patched(module: Any) -> None:
        from . import patch

        patch.patch(module, asked)

    def counted(module: Any) -> None:
        from . import calls

        calls.wrap_all(module, asked)

    def compiling(module: Any) -> None:
        from . import calls

        calls.out_of_sight(module)

    modules = {call.module for call in asked.step_on + asked.watch}
    result: Dict[str, finder.Action] = {name: receipts.guarded(counted) for name in modules}
    if modules:
        result["torch._dynamo"] = receipts.guarded(compiling)
    result[request.MODULE] = receipts.guarded(patched)
    return result
