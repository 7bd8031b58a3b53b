"""Functions and methods of the program whose calls are counted, exchanged in the module that defines them."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from . import device, receipts
from .handlers import exchange
from .recording import before_window
from .request import Call, Request
from .steps import Steps
from .windows import kind_of

DYNAMO = "torch._dynamo"
_steps: List[Steps] = []
_wrapped: Set[str] = set()
_left: Dict[str, int] = {}  # of the calls that are watched, by name
MOST_WATCHED = 20  # enough for a proof, and all that a program which makes thousands is kept up for
_counted: List[Tuple[Any, Around]] = []  # what torch.compile does not know of yet


class Around:
    """What happens around a call: `begun` gives what `ended` gets. Not for torch.compile, see `out_of_sight`."""

    def __init__(self, begun: Callable[..., Any], ended: Callable[..., Any]) -> None:
        self.begun, self.ended = receipts.guarded(begun), receipts.guarded(ended)


def wrap_all(module: Any, request: Request) -> None:
    """Count the calls that the request names in `module`; say what is missing there."""
    if not _steps:
        _steps.append(Steps(request))
    for call in request.step_on:
        if call.module == module.__name__:
            wrap(module, call, Around(partial(_steps[0].begun, call), partial(_steps[0].ended, call)))
    for call in request.watch:
        if call.module == module.__name__:
            wrap(module, call, Around(partial(watched, request, call), partial(watched_until, request, call)))
    if DYNAMO in sys.modules:
        out_of_sight(sys.modules[DYNAMO])


def wrap(module: Any, call: Call, around: Around) -> None:
    """Exchange one name, so that its callers get what is around it as well."""
    _wrapped.add(call.call)
    *path, name = call.qualname.split(".")
    try:
        owner = functools.reduce(getattr, path, module)
        found = inspect.getattr_static(owner, name)
    except AttributeError as error:
        receipts.say("missing", call=call.call, why=str(error))
        return
    function = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
    if (
        not inspect.isroutine(function)
        or inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
    ):
        why = "it is a {} that does not run to its end when it is called".format(type(function).__name__)
        receipts.say("missing", call=call.call, why=why)
        return
    other = wrapper(function, around)
    setattr(owner, name, other if function is found else type(found)(other))
    if owner is module:
        exchange(function, other)  # what somebody has imported by name already


def wrapper(function: Callable[..., Any], around: Around) -> Any:
    """`function` with something around it."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        begun = around.begun(args, kwargs)
        try:
            result = function(*args, **kwargs)
        except BaseException:
            around.ended(begun, True)
            raise
        around.ended(begun, False)
        return result

    _counted.append((counted, around))
    other: Any = functools.wraps(function)(counted)
    other._torchdynamo_disable = True
    return other


def out_of_sight(dynamo: Any) -> None:
    """Keep torch.compile, now that it is there, to the program: ours is neither compiled nor counted as recompiled.

    Around a compiled call that is one frame which it leaves alone, while it compiles what that calls.
    """
    skip_code = getattr(sys.modules.get(DYNAMO + ".eval_frame"), "skip_code", None)
    while _counted and skip_code is not None:
        counted, around = _counted.pop()
        skip_code(counted.__code__)
        around.begun, around.ended = dynamo.disable(around.begun), dynamo.disable(around.ended)


def watched(request: Request, call: Call, args: Any, kwargs: Dict[str, Any]) -> Optional[Tuple[float, str]]:
    """A call begins, a warm-up step if nothing is recorded by its end: since when (perf_counter), and its kind."""
    if not _left.setdefault(call.call, MOST_WATCHED) or not before_window(request, call.phase) or device.capturing():
        return None
    return time.perf_counter(), call.phase or kind_of(args, kwargs)


def watched_until(request: Request, call: Call, begun: Optional[Tuple[float, str]], raised: bool) -> None:
    if begun is not None and not raised and before_window(request, call.phase):
        device.synchronize()
        _left[call.call] -= 1
        seconds = round(time.perf_counter() - begun[0], 6)
        receipts.say("warmup", phase=call.phase, kind=begun[1], seconds=seconds, call=call.call)


def never_imported(request: Request, pid: int) -> None:
    """When the program ends: say the names of modules that it never came to."""
    for call in request.step_on + request.watch:
        if call.call not in _wrapped and os.getpid() == pid:
            receipts.say("missing", call=call.call, why="{} was not imported".format(call.module))
