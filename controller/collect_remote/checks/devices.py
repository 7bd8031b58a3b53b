"""Which devices are free, and why the others are not."""

from __future__ import annotations

from ..devices import Wish, groups, verdicts
from ..errors import CollectError
from ..survey import Facts
from .check import Check, failed, ok


def free(facts: Facts, wish: Wish) -> Check:
    """By the judgement that a collection has; that one may also wait."""
    try:
        judged = verdicts(facts, wish)
        groups(judged, wish)
    except CollectError as error:
        return failed("devices", error)
    taken = "".join(f"; {verdict.device.label} {verdict.why}" for verdict in judged if not verdict.free)
    return ok("devices", f"{sum(verdict.free for verdict in judged)} of {len(judged)} free{taken}")
