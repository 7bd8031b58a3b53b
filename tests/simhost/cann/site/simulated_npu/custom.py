"""Operators that need more than the CPU's implementation of the same name.

IMPLEMENTATIONS take CPU tensors and return CPU tensors; WHOLE take the device's own tensors.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import torch

from . import recorder
from .host_view import Call, host_view

aten = torch.ops.aten


def _copy(destination: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Between host and device this is a transfer, between two device tensors a kernel."""
    start = recorder.now()
    to = host_view(destination) if destination.device.type != "cpu" else destination
    what = host_view(source) if source.device.type != "cpu" else source
    to.copy_(what)
    on_device = destination.device.type != "cpu" and source.device.type != "cpu"
    if on_device and to.numel() and recorder.recording():
        name = "aten::copy_" if source.dtype == destination.dtype else "aten::_to_copy"
        recorder.record(name, start, recorder.now(), [source], [destination])
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
    result = aten._to_copy(call.down(tensor), dtype=dtype, memory_format=memory_format)
    if device is not None and device.type == "cpu":
        return result
    made = call.up(result)
    if result.numel() and recorder.recording():
        recorder.record("aten::_to_copy", start, recorder.now(), [tensor], [made])
    return made


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: Optional[torch.Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """One fused kernel where no gradient is asked for, else the differentiable sequence of kernels."""
    args = (query, key, value, attn_mask, dropout_p, is_causal)
    options = {"scale": scale, "enable_gqa": enable_gqa}
    if torch.is_grad_enabled() and any(item.requires_grad for item in args[:3]):
        return aten._scaled_dot_product_attention_math(*args, **options)[0]
    with torch._C._AutoDispatchBelowAutograd():
        return aten.scaled_dot_product_attention(*args, **options)


IMPLEMENTATIONS: Dict[str, Callable[..., Any]] = {}
WHOLE: Dict[str, Tuple[str, Callable[..., Any]]] = {
    "aten::copy_": ("PrivateUse1", _copy),
    "aten::_to_copy": ("PrivateUse1", _to_copy),
    "aten::scaled_dot_product_attention": ("AutogradPrivateUse1", _attention),
}
