"""`communication.json`: when its collectives began, to hold it against the kernels."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Set


def starts(document: Dict[str, Any]) -> Set[int]:
    """Starts in whole microseconds of the epoch. The file holds floats, which resolve to 0.25 us.

    {step: {"p2p" | "collective": {operator: {"Communication Time Info": {"Start Timestamp(us)": float}}}}}; each part
    of it may be missing.
    """
    found: Set[int] = set()
    for step in _values(document):
        for kind in _values(step):
            for operator in _values(kind):
                times = operator.get("Communication Time Info") if isinstance(operator, dict) else None
                start = _number(times.get("Start Timestamp(us)")) if isinstance(times, dict) else None
                if start:  # the totals have none, or 0
                    found.add(int(start))
    return found


def _values(part: Any) -> Iterator[Any]:
    return iter(part.values()) if isinstance(part, dict) else iter(())


def _number(value: Any) -> Optional[float]:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e18
    return float(value) if good else None
