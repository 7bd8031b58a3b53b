"""How torch_npu's profiler speaks: on stdout, in one form, and never with an exception."""

from __future__ import annotations

import functools
import os
import time
from typing import Any, Callable, Optional


def _say(level: str, message: str) -> None:
    stamp = time.strftime("[%Y-%m-%d %H:%M:%S]")
    print("{} [{}] [{}] profiler.py: {}".format(stamp, level, os.getpid(), message), flush=True)


def info(message: str) -> None:
    _say("INFO", message)


def warn(message: str) -> None:
    """Hidden on every rank but 0 and with TORCH_NPU_WARNING_DISABLE=1."""
    disabled = os.environ.get("TORCH_NPU_WARNING_DISABLE", os.environ.get("TORCH_NPU_DISABLED_WARNING"))
    if disabled == "1" or os.environ.get("RANK", "0") != "0":
        return
    _say("WARNING", message)


def error(message: str) -> None:
    _say("ERROR", message)


def swallow(default: Any = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Every public call of the profiler: an exception becomes one line and ``default`` is returned."""

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            try:
                return func(*args, **kwargs)
            except Exception as problem:
                error("Call {} failed. Exception: {}".format(func.__name__, problem))
                return default

        return wrapper

    return decorate


_under_msprof: Optional[bool] = None


def usable() -> bool:
    """False when the process runs under the msprof tool: the profiler then does nothing but warn, once."""
    global _under_msprof
    if _under_msprof is None:
        static, dynamic = os.getenv("PROFILER_SAMPLECONFIG"), os.getenv("PROFILING_MODE")
        if static:
            warn("If performance data is collected using the 'msprof' tool. torch_npu profiler api is not effective.")
        if dynamic:
            warn(
                "Environment variable 'PROFILING_MODE' is set. torch_npu profiler api is not effective. "
                "Please execute 'unset PROFILING_MODE'."
            )
        _under_msprof = bool(static or dynamic)
    return not _under_msprof
