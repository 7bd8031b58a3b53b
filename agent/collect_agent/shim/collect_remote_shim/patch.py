"""torch_npu.profiler, made to record what was asked for.

The class `profile` keeps being itself, and its methods are exchanged: so it does not matter how a program came by its
name, nor what it derives from it.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import sys
import weakref
from typing import Any, Callable, Dict, Optional, Tuple

from . import arguments, receipts
from .handlers import MARK, Asked, Handlers, exchange, marked
from .recording import Recording
from .request import Request

_made: weakref.WeakSet[Any] = weakref.WeakSet()  # profilers of this process


def patch(profiler: Any, request: Request) -> None:
    """Exchange the names of the module torch_npu.profiler, once."""
    receipts.say("imported", torch=version("torch"), torch_npu=version("torch_npu"))
    if MARK in vars(profiler.profile):
        return
    setattr(profiler.profile, MARK, None)
    if request.step_on or request.watch:
        from . import calls

        atexit.register(calls.never_imported, request, os.getpid())
    handlers = Handlers(profiler.tensorboard_trace_handler)
    exchange(profiler.tensorboard_trace_handler, handlers.build)
    profiler.profile.__init__ = constructor(profiler, request, handlers)
    for name in ("start", "step", "stop"):
        setattr(profiler.profile, name, method(getattr(profiler.profile, name), name))


def version(package: str) -> Optional[str]:
    """Of a package that may be in the middle of its import."""
    modules = (sys.modules.get(name) for name in (package, package + ".version"))
    found = (getattr(module, "__version__", None) for module in modules)
    return next((str(one) for one in found if one), None)


# --- construction ---


def constructor(profiler: Any, request: Request, handlers: Handlers) -> Callable[..., None]:
    """`profile.__init__` with the arguments asked for where a phase is wanted, and a Recording beside it."""
    original = profiler.profile.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def construct(prof: Any, *args: Any, **kwargs: Any) -> None:
        bound = recording = None
        try:
            bound = signature.bind(prof, *args, **kwargs)
            recording = begun(profiler, request, handlers, bound)
        except Exception as error:  # noqa: BLE001 - then it is all the program's
            receipts.trouble("profile", error)
        if bound is None or recording is None or recording.phase is None:
            original(prof, *args, **kwargs)
        else:
            try:
                original(*bound.args, **bound.kwargs)
            except Exception as error:  # noqa: BLE001 - then as the program wants it
                receipts.trouble("profile with the arguments asked for", error)
                original(prof, *args, **kwargs)
                return
        if bound is not None and recording is not None:
            receipts.guarded(made)(profiler, prof, recording, bound.arguments)

    return construct


def begun(profiler: Any, request: Request, handlers: Handlers, bound: inspect.BoundArguments) -> Recording:
    """The Recording of a profiler that is about to be constructed, with other arguments in `bound` if it is wanted."""
    said = dict(bound.arguments)
    handler = said.get("on_trace_ready")
    asked = handlers.asked(handler)
    phase, schedule = scheduled(profiler, request, asked, said.get("schedule"))
    recording = Recording(request, phase, asked, schedule, handlers.place)
    recording.about.update(
        call_site=call_site(),
        directory=asked.directory or None,
        schedule=arguments.schedule_said(schedule),
        requested=dict(arguments.said(profiler, said), handler=handlers.kind(handler)),
        effective=None,
    )
    if phase is not None:
        wanted = dict(arguments.instead(profiler, request.profiler), schedule=schedule, on_trace_ready=marked(asked))
        bound.arguments.update(arguments.known(profiler.profile.__init__, wanted))
    return recording


def scheduled(profiler: Any, request: Request, asked: Asked, schedule: Any) -> Tuple[Optional[str], Any]:
    """The phase of a profiler, None if it is not wanted, and its schedule: the request's, if there is one."""
    if asked.phase:
        return asked.phase, schedule
    # Where calls are the steps, that is instead of what profilers the program may have.
    phase = None if request.step_on else request.phase_of(asked.directory)
    window = request.windows.get(phase) if phase else None
    if window:
        return phase, arguments.schedule(profiler, window)
    return phase, arguments.once(profiler, schedule) if callable(schedule) else None


def made(profiler: Any, prof: Any, recording: Recording, said: Dict[str, Any]) -> None:
    """A profiler is there: say what it is in the end."""
    setattr(prof, MARK, recording)
    if recording.phase is not None:
        has = vars(getattr(prof, "prof_if", None) or recording)
        recording.about["effective"] = arguments.said(profiler, {name: has.get(name, said[name]) for name in said})
    recording.tell()
    if not _made:
        # Later than torch_npu's own end of the device, and so run before it.
        atexit.register(stop_all)
    _made.add(prof)


def stop_all() -> None:
    """The program ends: nothing may be left to the end of the interpreter."""
    for prof in list(_made):
        receipts.guarded(prof.stop)()


def call_site() -> str:
    """file:line of the code that makes a profiler."""
    here = os.path.dirname(__file__)
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(here):
        frame = frame.f_back
    return "{}:{}".format(frame.f_code.co_filename, frame.f_lineno) if frame else ""


# --- life ---


class Once:
    """A call that is made once at most, and what came of it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function, self.made = function, False
        self.result: Any = None
        self.error: Optional[BaseException] = None

    def __call__(self) -> Any:
        self.made = True
        try:
            self.result = self.function()
        except BaseException as error:
            self.error = error
            raise
        return self.result


def method(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`original`, a method of `profile`, inside of the method of Recording with its name."""

    @functools.wraps(original)
    def lived(prof: Any, *args: Any, **kwargs: Any) -> Any:
        recording = getattr(prof, MARK, None)
        if recording is None:
            return original(prof, *args, **kwargs)
        call = Once(lambda: original(prof, *args, **kwargs))
        try:
            getattr(recording, name)(prof, call)
        except Exception as error:
            if error is call.error:
                raise
            receipts.trouble(name, error)
            if not call.made and recording.wanted:
                call()
        return call.result

    return lived
