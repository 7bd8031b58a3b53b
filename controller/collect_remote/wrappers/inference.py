"""Profilers for prefill and decode: off unless NPU_PROFILE names a directory.

    from npu_profile import run

    out = run("prefill", model, input_ids)
    while not done:
        out = run("decode", model, token, cache)

NPU_PROFILE          the directory; the profiles are written below its `prefill` and `decode`
NPU_PROFILE_PHASES   prefill,decode, or one of them (prefill,decode)
NPU_PROFILE_FROM     calls of each that pass first: what is compiled in them is not measured (2)
NPU_PROFILE_STEPS    decode calls that are recorded (10); of prefill it is one
NPU_PROFILE_RANKS    0, or several (0,8), or all (0)
NPU_PROFILE_LEVEL, NPU_PROFILE_METRICS    of torch_npu.profiler (1, PipeUtilization)

`run` stands where the model is called, and nowhere else. A profile holds calls of one kind alone, one behind the other:
generate NPU_PROFILE_FROM + NPU_PROFILE_STEPS + 2 tokens a prompt at least, for NPU_PROFILE_FROM + 1 prompts at least.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .common import Recording, number, refused, setting, wanted

PHASES = ("prefill", "decode")


class Windows:
    """For each phase: how many calls have passed, and whether it is recorded."""

    def __init__(self) -> None:
        asked = setting("PHASES", ",".join(PHASES)).split(",")
        unknown = [phase for phase in asked if phase not in PHASES]
        if unknown:
            raise refused("PHASES", unknown[0], "give prefill, decode, or both with a comma")
        self.left = {phase: number("FROM", 2) for phase in asked if wanted()}

    def before(self, phase: str) -> Recording | None:
        """The recording that a call of `phase` belongs to; one of another phase has ended with this call."""
        current = Recording.current
        if current is not None and current.phase != phase:
            current.close()
            current = None
        if current is not None or phase not in self.left:
            return current
        if self.left[phase]:
            self.left[phase] -= 1
            return None
        del self.left[phase]
        # Another call of prefill comes only behind those of decode: the profiler gets no step to warm up in.
        return Recording(phase, active=1, warmup=0) if phase == "prefill" else Recording(phase, number("STEPS", 10, 1))


windows: Windows | None = None


def run(phase: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What `call` returns; it is one step of `phase`."""
    global windows
    windows = windows or Windows()
    if not windows.left and Recording.current is None:
        return call(*args, **kwargs)
    import torch

    torch.npu.synchronize()  # what was launched before belongs to no step
    recording = windows.before(phase)
    result = call(*args, **kwargs)
    if recording is not None:
        recording.step()
    return result
