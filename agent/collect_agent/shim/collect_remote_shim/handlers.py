"""tensorboard_trace_handler as programs see it: what they ask for is remembered, and nothing is set for the process.

Everything is parsed later, in a process of its own: no rank waits for another's parser, and what torch_npu refuses to
parse (in a daemon) is parsed after all.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Callable, Optional

MARK = "_collect_remote"


class Asked:
    """What a handler was built with; a window of ours has its phase as well."""

    def __init__(self, directory: str = "", worker: Optional[str] = None, phase: Optional[str] = None) -> None:
        self.directory, self.worker, self.phase = directory, worker, phase


def marked(asked: Asked) -> Callable[[Any], None]:
    """A handler that says what it was built with."""

    def handler(_prof: Any) -> None:
        """Nothing is left to do when a window has closed."""

    setattr(handler, MARK, asked)
    return handler


class Handlers:
    """The handlers of a process. torch_npu itself has one place for all of them: that of the handler built last."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self.place: Callable[[str, Optional[str]], Any] = original
        self.last = Asked()
        signature = inspect.signature(original)

        @functools.wraps(original)
        def build(*args: Any, **kwargs: Any) -> Any:
            try:
                said = signature.bind(*args, **kwargs).arguments
            except TypeError:
                return original(*args, **kwargs)  # which has words for it
            self.last = Asked(str(said.get("dir_name") or ""), said.get("worker_name"))
            return marked(self.last)

        self.build = build

    def asked(self, handler: Any) -> Asked:
        """What a profiler was told of its directory. A handler of the program's own is built around the last one."""
        return getattr(handler, MARK, None) or (self.last if handler else Asked())

    @staticmethod
    def kind(handler: Any) -> Optional[str]:
        """tensorboard, own (some other function of the program's), or None."""
        if not handler:
            return None
        return "tensorboard" if isinstance(getattr(handler, MARK, None), Asked) else "own"


def exchange(original: Any, other: Any) -> None:
    """Put `other` under the name of `original` in every module that has it under that name."""
    name = original.__name__
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        if names.get(name) is original:
            names[name] = other
