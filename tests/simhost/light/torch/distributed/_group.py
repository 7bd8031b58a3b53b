"""The default process group: who is in it, and nothing that it could do. There are no collectives."""

from __future__ import annotations

import os
from typing import Any, Optional, Tuple

_NOT_YET = "Default process group has not been initialized, please make sure to call init_process_group."
_here: Optional[Tuple[int, int]] = None  # rank, world size


def init_process_group(
    backend: Optional[str] = None,
    init_method: Optional[str] = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    **_: Any,
) -> None:
    """Nobody is waited for; what is not given is read from RANK and WORLD_SIZE."""
    global _here
    if _here is not None:
        raise ValueError("trying to initialize the default process group twice!")
    found = []
    for name, given in (("RANK", rank), ("WORLD_SIZE", world_size)):
        if given < 0 and name not in os.environ:
            text = "Error initializing torch.distributed using env:// rendezvous: environment variable {} expected"
            raise ValueError(text.format(name) + ", but not set")
        found.append(int(os.environ[name]) if given < 0 else given)
    _here = (found[0], found[1])


def destroy_process_group(group: Any = None) -> None:
    global _here
    _here = None


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return _here is not None


def _entered() -> Tuple[int, int]:
    if _here is None:
        raise ValueError(_NOT_YET)
    return _here


def get_rank(group: Any = None) -> int:
    return _entered()[0]


def get_world_size(group: Any = None) -> int:
    return _entered()[1]
