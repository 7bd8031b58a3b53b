"""Reports operators to the simulated CANN profiler while it collects.

One JSON line per operator: name, start and end in ns of CLOCK_MONOTONIC_RAW, thread id, inputs, outputs; a
tensor is [sizes, dtype].
"""

from __future__ import annotations

import ctypes
import json
import threading
import time
from typing import Any, Iterable, List

import torch

_cann = ctypes.CDLL("libsimcann.so")
_recording = ctypes.c_int.in_dll(_cann, "sim_recording")
_record = _cann.sim_record
_record.argtypes = [ctypes.c_char_p]
_record.restype = None


def recording() -> bool:
    return bool(_recording.value)


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def _described(tensors: Iterable[Any]) -> List[List[Any]]:
    return [[list(tensor.shape), str(tensor.dtype)] for tensor in tensors]


def record(name: str, start: int, inputs: Iterable[Any], outputs: Iterable[Any]) -> None:
    """Report an operator that ends now; one without a result of any size launches nothing."""
    written = [tensor for tensor in outputs if tensor.numel()]
    if written:
        entry = [name, start, now(), threading.get_native_id(), _described(inputs), _described(written)]
        _record(json.dumps(entry).encode())


class unseen:
    """In this context torch notes no operators: those on the CPU are no part of what a device shows."""

    _depth = threading.local()

    def __enter__(self) -> None:
        self._depth.value = getattr(self._depth, "value", 0) + 1
        torch._C._autograd._enable_record_function(False)

    def __exit__(self, *error: Any) -> None:
        self._depth.value -= 1
        torch._C._autograd._enable_record_function(self._depth.value == 0)
