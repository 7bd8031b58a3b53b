"""Everything about a host that would stop a collection, as checks over its facts: pure, each in one function.

A collection runs them in this order and stops at the first failure; the doctor shows all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..inventory import ModelSpec
from ..npus.judged import Wish
from ..survey.survey import Facts
from . import connection, container, devices, models, output, software
from .check import Check, Subject, Verdict, failed, ok, passed_on, warned
from .estimate import LEAST, Need

__all__ = [
    "Check",
    "Subject",
    "Verdict",
    "connection",
    "failed",
    "of_host",
    "of_run",
    "ok",
    "passed_on",
    "require",
    "warned",
]


def of_host(facts: Facts, need: Need = LEAST, model: ModelSpec | None = None) -> Iterator[Check]:
    """All but those of the devices, which a collection may wait for."""
    yield software.noise(facts)
    yield from container.checks(facts)
    yield software.python(facts)
    yield software.torch_npu(facts)
    yield from software.versions(facts)
    yield software.cann(facts)
    yield software.msprof(facts)
    yield from output.checks(facts, need)
    if model is not None:
        yield models.package(facts, model)
        yield models.files(facts, model)


def of_run(facts: Facts, need: Need, model: ModelSpec | None, wish: Wish) -> Iterator[Check]:
    yield from of_host(facts, need, model)
    yield devices.free(facts, wish)


def require(checks: Iterable[Check]) -> None:
    """Raise the error of the first check that fails."""
    for check in checks:
        if check.error:
            raise check.error
