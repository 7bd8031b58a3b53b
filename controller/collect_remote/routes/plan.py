"""The plan of a run: pure data, everything the host has to know, shown by `--dry-run` before anything happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Plan:
    """How to get a profile out of a program.

    files: text by path relative to the run directory. argv: may name {python}, {agent}, {run}, and {port}, one that is
    free. env: what the route adds to the environment that the survey captured. expected: what the validation will hold
    the result against (level, aic_metrics, export, steps by phase, ranks).
    """

    route: str
    files: Mapping[str, str]
    argv: tuple[str, ...]
    env: Mapping[str, str]
    expected: Mapping[str, Any]
