"""What a journal keeps of a cell must look like before it is used: another release, or a broken disk, wrote others."""

from __future__ import annotations

import re

from ..shape import ANY_NAME, Null, count

STATE = re.compile("pending|running|valid|failed|ended")
TIME = Null(float)
ASKED = {"host": str, "model": str, "phase": Null(str)}
ERROR = {
    **dict.fromkeys(("kind", "message", "remedy", "entry", "stage", "host"), str),
    "kinds": [str],
    "exit_code": int,
}
# Of `summary.summarize`.
_STEPS = {"count": count, **dict.fromkeys(("median_ms", "mad_ms", "min_ms", "max_ms"), float)}
_PARTS = ("computing", "communication", "free")
_KERNEL = {
    **dict.fromkeys(("name", "core"), str),
    "calls": count,
    **dict.fromkeys(("total_us", "mean_us"), float),
    "share_pct": TIME,
}
_PROFILE = {
    **dict.fromkeys(("phase", "directory"), str),
    "rank": count,
    **dict.fromkeys(("chip", "device", "device_name"), Null(str)),
    "steps": {ANY_NAME: _STEPS},
    "times": Null(dict.fromkeys((f"{part}_{unit}" for part in _PARTS for unit in ("us", "pct")), float)),
    "kernels": Null({"calls": count, "total_us": float, "top": [_KERNEL]}),
}
OUTCOME = {
    "state": re.compile("valid|failed|interrupted|lost"),
    "error": Null(ERROR),
    "directory": Null(str),
    "summary": Null({"profiles": [_PROFILE]}),
    "versions": {ANY_NAME: Null(str)},
    "left": bool,
}
ROW = {
    **dict.fromkeys(("key", "digest", "model_digest"), str),
    "asked": ASKED,
    "state": STATE,
    "due": float,
    "number": Null(int),
    "run_id": Null(str),
    **dict.fromkeys(("began", "ended"), TIME),
    "outcome": Null(OUTCOME),
}
