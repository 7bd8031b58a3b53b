"""How much room a run needs on the host.

What is recorded is taken for 1 MiB a step at Level1: some 2,000 kernels with their counters, twice as many host calls.
Level0 has no counters, Level2 more of the host; stacks multiply what is kept of every call. torch_npu and msprof parse
that into databases, tables and a trace beside it, for which Huawei's documentation asks 20 times the raw size.
"""

from __future__ import annotations

from dataclasses import dataclass

from collect_agent import template

from ..request import Request, Window

MIB = 1 << 20
TIMES = 20
LEAST_BYTES = 256 * MIB
STEP_BYTES = {0: MIB // 2, 1: MIB, 2: 2 * MIB}
WITH_STACK, RECORD_SHAPES, PROFILE_MEMORY = 4, 2, 2
WINDOW_FILES = 100  # raw ones, of one window


@dataclass(frozen=True, slots=True)
class Need:
    """Free bytes and inodes without which a run is not started."""

    bytes: int
    inodes: int


LEAST = Need(LEAST_BYTES, TIMES * WINDOW_FILES)


def need(request: Request, window: Window) -> Need:
    """What the recorded steps of a request need, the profiler's own warm-up step of every window included."""
    counts = window.step_counts.values()
    raw = (sum(counts) + len(counts) * template.PROFILER_WARMUP) * STEP_BYTES[request.level]
    for asked, factor in (
        (request.with_stack, WITH_STACK),
        (request.record_shapes, RECORD_SHAPES),
        (request.profile_memory, PROFILE_MEMORY),
    ):
        raw *= factor if asked else 1
    raw *= request.rank_count
    return Need(max(LEAST_BYTES, TIMES * raw), TIMES * WINDOW_FILES * len(counts) * request.rank_count)
