"""CPU implementations for every aten operator that computes, under the dispatch key of the NPU.

Views and allocation stay torch_npu's own. An operator that would launch a kernel on a device is reported to
the simulated profiler while it collects.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, List

import torch

from . import copies, fused, gradient, recorder
from .host_view import Call

# Allocation and bookkeeping, which work natively on the simulated driver.
NATIVE = {
    "empty", "empty_like", "empty_strided", "new_empty_strided", "empty_with_format",
    "unsafe_empty_with_format", "empty_with_swapped_memory",
    "set_", "resize_", "resize_as_", "is_set_to", "record_stream", "is_pinned",
    "_pin_memory", "get_storage_size", "as_strided_", "copy_memory_", "_lazy_clone",
}  # fmt: skip


def register() -> None:
    """Take over the device's operators of aten, and the fused ones of torch_npu that `fused` has."""
    library = torch.library.Library("aten", "IMPL", "PrivateUse1")
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and _computes(name):
            overload = _overload(name)
            library.impl(name[6:], _on_cpu(name, overload), allow_override=True)
    for name, implementation in copies.IMPLEMENTATIONS.items():
        library.impl(name, implementation, allow_override=True)
    gradients = torch.library.Library("aten", "IMPL", "AutogradPrivateUse1")
    for name in gradient.decomposable():
        implementation = gradient.decomposed(_overload(name))
        gradients.impl(name[6:], implementation, allow_override=True, with_keyset=True)
    npu = torch.library.Library("npu", "IMPL", "PrivateUse1")
    for name, implementation in fused.IMPLEMENTATIONS.items():
        npu.impl(name, _on_cpu("npu::" + name, implementation), allow_override=True)
    _libraries.extend((library, gradients, npu))


_libraries: List[torch.library.Library] = []  # a registration lives as long as its library


def _has(name: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


def _overload(name: str) -> Any:
    base, _, overload = name.split("::")[1].partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def _computes(name: str) -> bool:
    """Has work for a kernel: torch_npu or only the CPU implements it, and it is no view and no allocation."""
    if name.split("::")[1].split(".")[0] in NATIVE:
        return False
    if not _has(name, "PrivateUse1"):
        if not _has(name, "CPU") or _has(name, "CompositeImplicitAutograd"):
            return False
    elif not any(_has(name, key) for key in ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd")):
        return _has(name, "CompositeExplicitAutogradNonFunctional")
    returns = _overload(name)._schema.returns
    return not any(item.alias_info is not None and not item.alias_info.is_write for item in returns)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _on_cpu(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    written = _written_arguments(compute)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        start = recorder.now()
        call = Call()
        with recorder.unseen():
            host_args = [call.down(value) for value in args]
            host_kwargs = {key: call.down(value) for key, value in kwargs.items()}
            result = compute(*host_args, **host_kwargs)
            if recorder.recording():
                changed = [item for key in written for item in _tensors(_argument(key, host_args, host_kwargs))]
                outputs = changed or [item for item in _tensors(result) if not call.is_input(item)]
                recorder.record(name, start, call.inputs, outputs)
            return call.up(result)

    return kernel


def _written_arguments(compute: Any) -> List[Any]:
    """Position and name of the arguments that an operator writes to."""
    schema = getattr(compute, "_schema", None)
    arguments = schema.arguments if schema is not None else []
    return [
        (place, item.name)
        for place, item in enumerate(arguments)
        if item.alias_info is not None and item.alias_info.is_write
    ]


def _argument(key: Any, args: List[Any], kwargs: Any) -> Any:
    place, name = key
    return args[place] if place < len(args) else kwargs.get(name)
