"""Switches: gradient modes, threads, determinism. Nothing here computes gradients, so they only have to be there."""

from __future__ import annotations

import functools
from typing import Any, Callable, List

_modes: List[bool] = [True]
_threads = [1]


class set_grad_enabled:
    """A context manager and a decorator, as its two named forms below."""

    def __init__(self, mode: bool = True) -> None:
        self._mode = mode

    def __enter__(self) -> Any:
        _modes.append(self._mode)
        return self

    def __exit__(self, *exc: object) -> None:
        _modes.pop()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return wrapper


def _named(enabled: bool) -> Any:
    def mode(func: Any = True) -> Any:
        """``@no_grad``, ``@no_grad()`` and ``with no_grad():``; inference_mode also takes a bool."""
        if callable(func):
            return set_grad_enabled(enabled)(func)
        return set_grad_enabled(enabled if func else not enabled)

    return mode


no_grad, inference_mode, enable_grad = _named(False), _named(False), _named(True)


def is_grad_enabled() -> bool:
    return _modes[-1]


def is_inference_mode_enabled() -> bool:
    return not _modes[-1]


def set_num_threads(n: int) -> None:
    if n < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    _threads[0] = n


def get_num_threads() -> int:
    return _threads[0]


class autocast:
    """``torch.autocast``: accepted; the stand-in computes in the types it is given."""

    def __init__(self, device_type: str = "npu", dtype: Any = None, enabled: bool = True, **_: Any) -> None:
        pass

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return func


def _nothing(*_: Any, **__: Any) -> None:
    """A switch without effect here."""


use_deterministic_algorithms = set_float32_matmul_precision = set_num_interop_threads = set_printoptions = _nothing
