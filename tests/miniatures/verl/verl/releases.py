"""What differs between releases of verl where profiles are made."""

from __future__ import annotations

import os
import re
from importlib import metadata
from typing import NamedTuple


class Release(NamedTuple):
    """One generation.

    keys: where the profiler is configured: nowhere for NPUs, in ``trainer``, in ``global_profiler``
    level: the default
    export: fixed in the source
    agent_loop: whether rollouts are made by servers of their own, in daemonic workers
    profiled_servers: whether these can be profiled
    token_window: whether a part of a rollout can be chosen
    """

    keys: str
    level: str
    export: str
    agent_loop: bool
    profiled_servers: bool
    token_window: bool


def version() -> str:
    """What VERL_MINIATURE_VERSION says, else that of the distribution."""
    try:
        return os.environ.get("VERL_MINIATURE_VERSION") or metadata.version("verl")
    except metadata.PackageNotFoundError:
        return "0.9.0"


def release(of: str) -> Release:
    found = re.match(r"0\.(\d+)\.", of)
    minor = int(found.group(1)) if found else 99
    keys = "none" if minor < 5 else "trainer" if minor == 5 else "global_profiler"
    return Release(
        keys,
        level="level1" if minor < 7 else "level0",
        export="Text" if minor < 7 else "Db",
        agent_loop=minor >= 7,
        profiled_servers=minor >= 8,
        token_window=minor >= 9,
    )
