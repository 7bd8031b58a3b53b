"""stub"""

from __future__ import annotations

import sys
from typing import Any


def watch(place: Any) -> Any:
    from collect_remote.sweeps.whole import _Told

    return _Told(lambda e: print(e, file=sys.stderr, flush=True) if e["stage"] in ("began", "ended") else None)
