"""Which devices are free, and why the others are not."""

from __future__ import annotations

from ..errors import CollectError
from ..npus.judged import Wish, groups, verdicts
from ..survey.survey import Facts
from .check import Check, Subject, ok, passed_on

DEVICES = Subject(
    "devices",
    "npu-smi answers; how many devices are free, and why the others are not",
    "[exit 4](#exit-4-no-free-device)",
)


def free(facts: Facts, wish: Wish) -> Check:
    """By the judgement that a collection has; that one may also wait."""
    try:
        judged = verdicts(facts, wish)
        groups(judged, wish)
    except CollectError as error:
        return passed_on(DEVICES, error)
    taken = "".join(f"; {verdict.device.label} {verdict.why}" for verdict in judged if not verdict.free)
    return ok(DEVICES, f"{sum(verdict.free for verdict in judged)} of {len(judged)} free{taken}")
