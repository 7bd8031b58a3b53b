"""Profilers for the stages of reinforcement learning, each with its own: off unless NPU_PROFILE names a directory.

    from npu_profile import stage

    for iteration in range(iterations):
        with stage("rollout", iteration) as profiler:
            while not done:
                decode()
                profiler.step()             # a token
        with stage("train", iteration) as profiler:
            for batch in batches:
                update(batch)
                profiler.step()             # a mini-batch

NPU_PROFILE             the directory; the profiles are written below it, by stage
NPU_PROFILE_STAGES      which stages (rollout,train)
NPU_PROFILE_ITERATION   in which iteration (2)
NPU_PROFILE_FROM        tokens, or mini-batches, that pass first (2)
NPU_PROFILE_STEPS       tokens, or mini-batches, that are recorded (5): a whole stage would be terabytes
NPU_PROFILE_RANKS       0, or several (0,8), or all (0)
NPU_PROFILE_LEVEL, NPU_PROFILE_METRICS    of torch_npu.profiler (1, PipeUtilization)

Stages follow one another in a process, they do not nest. Processes that a cluster starts need these variables in their
own environment (with Ray: runtime_env).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .common import Recording, number, setting, wanted


@contextmanager
def stage(name: str, iteration: int) -> Iterator[Recording]:
    stages = setting("STAGES", "rollout,train").split(",")
    on = wanted() and name in stages and iteration == number("ITERATION", 2)
    recording = Recording(name, active=number("STEPS", 5, 1), skip=number("FROM", 2), on=on)
    try:
        yield recording
    finally:
        recording.close()
