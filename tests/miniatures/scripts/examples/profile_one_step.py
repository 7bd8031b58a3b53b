"""How one would profile a step: nothing that the scripts beside this directory run."""

from __future__ import annotations

import torch_npu


def profiled(step: object, directory: str) -> None:
    with torch_npu.profiler.profile(on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(directory)) as profiler:
        step()
        profiler.step()
