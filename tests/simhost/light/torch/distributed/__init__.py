"""``torch.distributed`` as far as its launcher ``run`` goes: there are no collectives."""

from __future__ import annotations

from typing import Any

from .._tensor import UNKNOWN


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(UNKNOWN.format("distributed." + name))
