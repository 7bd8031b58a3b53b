"""A profiler for a training loop: off unless NPU_PROFILE names a directory.

    from npu_profile import profiled

    with profiled() as profiler:
        for batch in data:
            train_step(batch)
            profiler.step()

NPU_PROFILE          the directory; the profile is written below its `train`
NPU_PROFILE_FROM     steps that pass first: what is compiled and allocated in them is not measured (5)
NPU_PROFILE_STEPS    steps that are recorded (3)
NPU_PROFILE_RANKS    0, or several (0,8), or all (0)
NPU_PROFILE_LEVEL, NPU_PROFILE_METRICS    of torch_npu.profiler (1, PipeUtilization)

`profiled()` stands in one place, around the loop; train for NPU_PROFILE_FROM + NPU_PROFILE_STEPS + 1 steps at least.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .common import Recording, number, wanted


@contextmanager
def profiled() -> Iterator[Recording]:
    recording = Recording("train", active=number("STEPS", 3, 1), skip=number("FROM", 5), on=wanted())
    try:
        yield recording
    finally:
        recording.close()
