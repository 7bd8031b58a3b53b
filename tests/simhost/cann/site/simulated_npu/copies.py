"""Copies and casts: the operators for which it matters on which side each tensor is."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import torch

from . import recorder
from .host_view import Call, host_view

aten = torch.ops.aten


def _copy(destination: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Between host and device this is a transfer, between two device tensors a kernel."""
    start = recorder.now()
    with recorder.unseen():
        to = host_view(destination) if destination.device.type != "cpu" else destination
        what = host_view(source) if source.device.type != "cpu" else source
        to.copy_(what)
    on_device = destination.device.type != "cpu" and source.device.type != "cpu"
    if on_device and recorder.recording():
        name = "aten::copy_" if source.dtype == destination.dtype else "aten::_to_copy"
        recorder.record(name, start, [source], [destination])
    return destination


def _to_copy(
    tensor: torch.Tensor,
    *,
    dtype: Optional[torch.dtype] = None,
    layout: Optional[torch.layout] = None,
    device: Optional[torch.device] = None,
    pin_memory: Optional[bool] = None,
    non_blocking: bool = False,
    memory_format: Optional[torch.memory_format] = None,
) -> torch.Tensor:
    start = recorder.now()
    call = Call()
    with recorder.unseen():
        result = aten._to_copy(call.down(tensor), dtype=dtype, memory_format=memory_format)
        if device is not None and device.type == "cpu":
            return result
        if device is not None:
            call.device = device
        made = call.up(result)
    if tensor.device.type != "cpu" and recorder.recording():
        recorder.record("aten::_to_copy", start, [tensor], [made])
    return made


IMPLEMENTATIONS: Dict[str, Callable[..., Any]] = {"copy_": _copy, "_to_copy": _to_copy}
