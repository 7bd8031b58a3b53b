"""Integer nanoseconds in the microseconds that CANN prints, exactly."""

from __future__ import annotations


def microseconds(ns: int) -> str:
    """1736408883704643212 -> "1736408883704643.212": exact, always three decimals."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"


def short(ns: int) -> str:
    """Microseconds as CANN prints durations: 53741 -> "53.741", 6540 -> "6.54", 0 -> "0"."""
    return microseconds(ns).rstrip("0").rstrip(".")
