"""One line for everything that happens: `<receipts>/<pid>.jsonl`, each with `time` (epoch seconds) and `say`."""

from __future__ import annotations

import os
import time

from . import plain_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, TypeVar

    Result = TypeVar("Result")

_where: Dict[str, str] = {}


def begin(directory: str) -> None:
    """Write there from now on."""
    _where["directory"] = directory


def say(word: str, /, **fields: Any) -> None:
    """Append a line, whole, to the file of this process; a place that cannot be written to keeps it silent."""
    try:
        line = plain_json.dumps(dict({"time": round(time.time(), 6), "say": word}, **fields)) + "\n"
        directory = _where["directory"]
        os.makedirs(directory, exist_ok=True)
        # Opened each time: a fork has another name, and a daemon has closed what it inherited.
        path = os.path.join(directory, "{}.jsonl".format(os.getpid()))
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
    except Exception:  # noqa: BLE001, S110 - at the end of the interpreter anything may be gone
        pass


def trouble(doing: str, error: BaseException) -> None:
    """Something of the shim's own failed; the program goes on."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "{}:{}".format(os.path.basename(place.tb_frame.f_code.co_filename), place.tb_lineno) if place else ""
    say("trouble", what="{}: {}: {} ({})".format(doing, type(error).__name__, error, where))


def guarded(function: Callable[..., Result]) -> Callable[..., Optional[Result]]:
    """`function`, or None and a line of trouble where it raises."""

    def call(*args: Any, **kwargs: Any) -> Optional[Result]:
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - nothing of the shim's may end the program
            trouble(getattr(function, "__name__", "a call"), error)
            return None

    return call
