"""How many processors this process may use: a container or a scheduler may leave it a few of many."""

from __future__ import annotations

import os


def count() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1
