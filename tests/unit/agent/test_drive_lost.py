"""A rank that has ended, by what its processes have written: told from ranks that are done, and from helpers."""

from __future__ import annotations

from typing import Any

import pytest

from collect_agent.drive.lost import lost

MISSING = {("train", 0), ("train", 1)}


def process(rank: int | None, ppid: int = 1, *, imported: bool = True, raised: str | None = None) -> list[Any]:
    lines: list[dict[str, Any]] = [{"say": "alive", "rank": rank, "ppid": ppid}]
    lines += [{"say": "imported"}] * imported
    return [*lines, {"say": "exit", "raised": raised}] if raised else lines


@pytest.mark.parametrize(
    ("processes", "living", "missing", "found"),
    [
        ({10: process(0), 11: process(1)}, {10, 11}, MISSING, None),
        ({10: process(0), 11: process(1, raised="KeyError: 'x'")}, {10}, MISSING, (1, "KeyError: 'x'")),
        ({10: process(0), 11: process(1)}, {10}, MISSING, (1, "")),
        ({10: process(0), 11: process(1)}, {11}, {("train", 1)}, None),
        ({10: process(0), 11: process(1, raised="KeyError: 'x'")}, {10}, {("train", 0)}, (1, "KeyError: 'x'")),
        ({10: process(0), 11: process(1, raised="ValueError"), 12: process(1)}, {10, 12}, MISSING, None),
        ({10: process(0), 11: process(1), 12: process(1, 11, raised="ValueError")}, {10, 11}, MISSING, None),
        ({10: process(0), 11: process(1), 12: process(1, imported=False)}, {10, 11}, MISSING, None),
        ({9: process(None), 10: process(0, 9), 11: process(1, 9)}, {9, 10}, MISSING, (1, "")),
        ({10: process(None)}, set(), {("train", 0)}, None),
        ({10: [{"say": "alive"}], 11: [{"say": "exit", "raised": 3}]}, set(), MISSING, None),
    ],
    ids=[
        "all-there",
        "raised",
        "killed",
        "done",
        "not-profiled",
        "restarted",
        "its-helper",
        "no-npu",
        "of-torchrun",
        "no-ranks",
        "foreign-lines",
    ],
)
def test_the_rank_that_the_others_wait_for(
    processes: dict[int, list[Any]], living: set[int], missing: set[tuple[str, int]], found: tuple[int, str] | None
) -> None:
    assert lost(processes, missing, living.__contains__) == found
