"""``torch.compile``: runs the function as it is, and counts what dynamo would compile.

The real one compiles again for every new set of input shapes (``dynamic=False``); that is what matters to somebody
who profiles, so each new set costs host time once and shows in ``torch._dynamo.utils.counters``.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Optional, Set, Tuple

from ._dynamo.utils import counters
from ._tensor import Tensor
from .nn.module import Module

COMPILE_SECONDS = 0.005


def _signature(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value._shape, value.dtype.name
    if isinstance(value, (list, tuple)):
        return tuple(_signature(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, _signature(v)) for k, v in value.items())
    return value if isinstance(value, (bool, int, float, str)) else type(value).__name__


class _Compiled:
    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._seen: Set[Tuple[Any, ...]] = set()
        self.__name__ = getattr(call, "__name__", type(call).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key = (_signature(args), _signature(kwargs))
        if key not in self._seen:
            self._seen.add(key)
            counters["frames"]["total"] += 1
            counters["frames"]["ok"] += 1
            counters["stats"]["unique_graphs"] += 1
            time.sleep(COMPILE_SECONDS)
        return self._call(*args, **kwargs)


class OptimizedModule(Module):
    """A compiled module: same parameters, same attributes, ``_orig_mod`` inside."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self._orig_mod = module
        self.forward = _Compiled(module.__call__)  # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)


def compile(model: Optional[Any] = None, **options: Any) -> Any:
    if model is None:
        return lambda function: compile(function, **options)
    return OptimizedModule(model) if isinstance(model, Module) else _Compiled(model)
