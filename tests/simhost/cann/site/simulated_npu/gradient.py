"""Gradients for operators of which torch_npu has a derivative of its own, made of kernels that are not simulated.

With a gradient asked for they fall apart into operators that have one in torch itself; without, they stay one
kernel.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional

import torch

aten = torch.ops.aten


def decomposable() -> Iterator[str]:
    """Names of the aten operators that torch composes of others and torch_npu differentiates as a whole."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and has(name, "AutogradPrivateUse1") and has(name, "CompositeImplicitAutograd"):
            yield name


def _wanted(*values: Any) -> bool:
    return torch.is_grad_enabled() and any(isinstance(item, torch.Tensor) and item.requires_grad for item in values)


def decomposed(overload: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        if _wanted(*args, *kwargs.values()):
            return overload.decompose(*args, **kwargs)
        with torch._C._AutoDispatchBelowAutograd():
            return overload(*args, **kwargs)

    return kernel


def attention(
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
    if _wanted(query, key, value):
        return aten._scaled_dot_product_attention_math(*args, **options)[0]
    with torch._C._AutoDispatchBelowAutograd():
        return aten.scaled_dot_product_attention(*args, **options)
