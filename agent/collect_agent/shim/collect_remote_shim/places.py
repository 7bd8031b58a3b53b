"""Which rank this process is, and a name for it where torch_npu would not know."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Iterator, Optional, Tuple


def _process_group() -> Any:
    """torch.distributed, once it has a process group."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def _number(name: str) -> Optional[int]:
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() else None


def rank_and_world() -> Tuple[int, int]:
    """(rank, number of ranks) as far as it can be seen by now; (0, 1) of a process that is alone.

    torch_npu looks at RANK, then at the process group. Launchers that set neither set RANK_ID, or only LOCAL_RANK.
    """
    group = _process_group()
    world = _number("WORLD_SIZE") or (group.get_world_size() if group else 1)
    told = _number("RANK")
    if told is not None:
        return told, world
    if group:
        return group.get_rank(), group.get_world_size()
    if world > 1:
        told = _number("RANK_ID")
        return (told if told is not None else _number("LOCAL_RANK") or 0), world
    return 0, world


@contextlib.contextmanager
def rank_named(rank: int, world: int) -> Iterator[None]:
    """While torch_npu names its files by the rank: RANK is set, where it would find no rank itself."""
    if world == 1 or "RANK" in os.environ or _process_group():
        yield
        return
    os.environ["RANK"] = str(rank)
    try:
        yield
    finally:
        os.environ.pop("RANK", None)
