"""The device of this process: what it is, what it has compiled, when it has finished."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Dict

from . import receipts
from .request import MODULE, Request

_ready: Dict[str, int] = {}  # the process that has told of its device, and waited


def _npu() -> Any:
    return sys.modules["torch"].npu


def capturing() -> bool:
    """Whether what is launched goes into a graph; waiting for it would be an error."""
    asked = getattr(_npu(), "is_current_stream_capturing", None) if MODULE in sys.modules else None
    return bool(asked and _npu().is_initialized() and asked())


@receipts.guarded
def synchronize() -> None:
    """Wait for all that was launched, if the device is in use at all."""
    if MODULE in sys.modules and _npu().is_initialized():
        _npu().synchronize()


def compilations() -> int:
    """Graphs that torch.compile has made so far in this process; 0 while it was never used."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0


@receipts.guarded
def tell() -> None:
    npu = _npu()
    index = npu.current_device()
    free, total = npu.mem_get_info()
    receipts.say(
        "device", count=npu.device_count(), name=npu.get_device_name(index), index=index, memory_free_bytes=free,
        memory_total_bytes=total, pid=os.getpid(),
    )  # fmt: skip


def before_recording(request: Request, recording: str) -> None:
    """Before the first recording of a process: say what its device is, and let others look at it before it is used."""
    if _ready.get("pid") == os.getpid():
        return
    _ready["pid"] = os.getpid()
    tell()
    if request.gate is None:
        return
    receipts.say("waiting", id=recording)
    until = time.monotonic() + request.gate_s
    while not os.path.exists(request.gate) and time.monotonic() < until:
        time.sleep(0.02)
