"""Functions and methods of the program whose calls are counted, exchanged in the module that defines them."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
from typing import Any, Callable, Dict, List, Set

from . import device, receipts
from .ends import Ends
from .handlers import exchange
from .recording import before_window
from .request import Call, Request
from .steps import Steps

Around = Callable[[Callable[..., Any], Any, Dict[str, Any]], Any]
_steps: List[Steps] = []
_wrapped: Set[str] = set()


def wrap_all(module: Any, request: Request) -> None:
    """Count the calls that the request names in `module`; say what is missing there."""
    if not _steps:
        _steps.append((Ends if any(call.ends for call in request.step_on) else Steps)(request))
    for call in request.step_on:
        if call.module == module.__name__:
            wrap(module, call, functools.partial(_steps[0].call, call))
    for call in request.watch:
        if call.module == module.__name__:
            wrap(module, call, functools.partial(watched, request, call))


def wrap(module: Any, call: Call, around: Around) -> None:
    """Exchange one name, so that `around(function, args, kwargs)` is what its callers get."""
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
    """A function that calls `around`; torch.compile leaves it alone, and compiles what it calls."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        return around(function, args, kwargs)

    skip_code = getattr(sys.modules.get("torch._C._dynamo.eval_frame"), "skip_code", None)
    if skip_code is not None:
        skip_code(counted.__code__)
    other: Any = functools.wraps(function)(counted)
    other._torchdynamo_disable = True
    return other


def watched(request: Request, call: Call, function: Callable[..., Any], args: Any, kwargs: Dict[str, Any]) -> Any:
    """Call `function`; outside of a recording, and before that of its phase, it is a warm-up step."""
    before = before_window(request, call.phase)
    begun = time.perf_counter()
    result = function(*args, **kwargs)
    if before and before_window(request, call.phase):
        device.synchronize()
        receipts.say("warmup", phase=call.phase, seconds=round(time.perf_counter() - begun, 6), call=call.call)
    return result


def never_imported(request: Request, pid: int) -> None:
    """When the program ends: say the names of modules that it never came to."""
    for call in request.step_on + request.watch:
        if call.call not in _wrapped and os.getpid() == pid:
            receipts.say("missing", call=call.call, why="{} was not imported".format(call.module))
