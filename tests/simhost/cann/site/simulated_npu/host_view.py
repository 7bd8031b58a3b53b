"""Tensors of the simulated device seen as CPU tensors, without a copy: device memory is host memory."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch

_CPU = torch.device("cpu")


def host_view(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor over the same bytes, of the same sizes and strides; the device tensor must outlive it."""
    storage = tensor.untyped_storage()
    size = storage.nbytes()
    if size == 0:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    bytes_ = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), _CPU, size)
    view = torch.empty(0, dtype=tensor.dtype)
    view.set_(bytes_, tensor.storage_offset(), tensor.size(), tensor.stride())
    if tensor.is_conj():
        view = view.conj()
    return view._neg_view() if tensor.is_neg() else view


class Call:
    """The arguments of one call carried to the CPU, and its results carried back."""

    def __init__(self) -> None:
        self.device = None
        self.inputs: List[torch.Tensor] = []
        self._of_view: Dict[int, Tuple[torch.Tensor, torch.Tensor]] = {}

    def down(self, value: Any) -> Any:
        """An argument as the CPU implementation takes it."""
        if isinstance(value, torch.Tensor):
            if value.device.type == "cpu":
                return value
            if self.device is None:
                self.device = value.device
            view = host_view(value)
            self._of_view[id(view)] = (view, value)
            self.inputs.append(value)
            return view
        if isinstance(value, (list, tuple)):
            return [self.down(item) for item in value]
        if isinstance(value, torch.device):
            if self.device is None and value.type != "cpu":
                self.device = value
            return _CPU
        if isinstance(value, torch.Generator):
            return host_generator(value)
        return value

    def up(self, value: Any) -> Any:
        """A result as the caller of the device's operator expects it."""
        if isinstance(value, torch.Tensor):
            known = self._of_view.get(id(value))
            if known is None:
                return self._aliased(value) if value.numel() else self._fresh(value)
            view, original = known
            if view.size() != original.size():  # out= of another size: the caller's tensor grows
                original.resize_(view.size())
                host_view(original).copy_(view)
            return original
        if isinstance(value, (list, tuple)):
            return type(value)(self.up(item) for item in value)
        return value

    def is_input(self, value: torch.Tensor) -> bool:
        return id(value) in self._of_view

    def _aliased(self, value: torch.Tensor) -> torch.Tensor:
        address = value.untyped_storage().data_ptr()
        for view, original in self._of_view.values():
            if view.numel() and view.untyped_storage().data_ptr() == address:
                return original.as_strided(value.size(), value.stride(), value.storage_offset())
        return self._fresh(value)

    def _fresh(self, value: torch.Tensor) -> torch.Tensor:
        if 0 in value.stride():
            value = value.contiguous()
        device = self.device if self.device is not None else torch.device("npu")
        made = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
        if value.numel():
            host_view(made).copy_(value)
        return made


_generators: Dict[int, Tuple[torch.Generator, int, torch.Generator]] = {}


def host_generator(generator: torch.Generator) -> torch.Generator:
    """The CPU generator that stands for a device generator: the same seed starts the same sequence."""
    if generator.device.type == "cpu":
        return generator
    seed = generator.initial_seed()
    known = _generators.get(id(generator))
    if known is None or known[0] is not generator or known[1] != seed:
        known = (generator, seed, torch.Generator().manual_seed(seed))
        _generators[id(generator)] = known
    return known[2]
