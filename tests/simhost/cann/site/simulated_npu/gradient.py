"""Gradients for operators of which torch_npu has a derivative of its own, made of kernels that are not simulated.

With a gradient asked for they fall apart into operators that have one in torch itself; without, they stay one
kernel.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator

import torch


def decomposable() -> Iterator[str]:
    """Names of the aten operators that torch composes of others and torch_npu differentiates as a whole."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and has(name, "AutogradPrivateUse1") and has(name, "CompositeImplicitAutograd"):
            yield name


def _wanted(*values: Any) -> bool:
    return torch.is_grad_enabled() and any(isinstance(item, torch.Tensor) and item.requires_grad for item in values)


def _attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
    """What torch would choose for other devices, written in operators with a gradient."""
    return torch.ops.aten._scaled_dot_product_attention_math(query, key, value, *args, **kwargs)[0]


_OWN: Dict[str, Callable[..., Any]] = {"aten::scaled_dot_product_attention": _attention}


def decomposed(overload: Any) -> Callable[..., Any]:
    """The kernel of an operator under the device's autograd key."""
    apart = _OWN.get(overload.name(), overload.decompose)

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if _wanted(*args, *kwargs.values()):
            return apart(*args, **kwargs)
        with torch._C._AutoDispatchBelowAutograd():
            return overload.redispatch(keys & torch._C._after_autograd_keyset, *args, **kwargs)

    return kernel
