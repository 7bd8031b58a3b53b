"""What differs between releases of verl where profiles are made."""

from __future__ import annotations

import os
import re
from importlib import metadata
from typing import NamedTuple


class Release(NamedTuple):
    """One generation.

    keys: where the profiler is configured: nowhere for NPUs, in ``trainer``, in ``global_profiler``
    export: fixed in the source
    agent_loop: whether rollouts are made by servers of their own, in daemonic workers
    token_window: whether a part of a rollout can be chosen
    """

    keys: str
    export: str
    agent_loop: bool
    token_window: bool


def version() -> str:
    """Of the distribution; else what VERL_MINIATURE_VERSION says."""
    try:
        return metadata.version("verl")
    except metadata.PackageNotFoundError:
        return os.environ.get("VERL_MINIATURE_VERSION", "0.8.0")


def release(of: str) -> Release:
    found = re.match(r"0\.(\d+)\.", of)
    minor = int(found.group(1)) if found else 99
    keys = "none" if minor < 5 else "trainer" if minor == 5 else "global_profiler"
    return Release(keys, "Text" if minor < 7 else "Db", agent_loop=minor >= 7, token_window=minor >= 8)
