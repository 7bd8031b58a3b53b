"""``torch.distributed``: its launcher ``run``, and who is in a process group. There are no collectives."""

from __future__ import annotations

from typing import Any

from .._tensor import UNKNOWN
from ._group import destroy_process_group as destroy_process_group
from ._group import get_rank as get_rank
from ._group import get_world_size as get_world_size
from ._group import init_process_group as init_process_group
from ._group import is_available as is_available
from ._group import is_initialized as is_initialized


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(UNKNOWN.format("distributed." + name))
