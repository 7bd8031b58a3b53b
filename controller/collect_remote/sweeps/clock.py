"""The time of a sweep: seconds since the epoch, which go on evenly when somebody sets the clock."""

from __future__ import annotations

import time

_BEGAN = time.time() - time.monotonic()


def now() -> float:
    return _BEGAN + time.monotonic()
