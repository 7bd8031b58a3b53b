"""Releases of vllm-ascend, as far as their profilers differ; from its sources and tags, 0.7.3 to 0.25.1rc1.

The level, the metrics and the export are fixed in all of them, and not always ours: the start-up shim sees to that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..request import Request
from .plan import Named

# One forward of the model, in every release since 0.7.3; by what is scheduled in it one sees which kind it is.
STEP = "vllm_ascend.worker.model_runner_v1:NPUModelRunner.execute_model"
# Nothing of ours comes to lie here: where a profile goes is the shim's; and an absolute path is asked for.
PLACE = Named("{run}/work/vllm")
RPC_MS = "1800000"  # a release that parses in place answers the engine's process only then


@dataclass(frozen=True, slots=True)
class Release:
    """`by_environment`: the switch is a variable, and --profiler-config unknown. `window`: it can begin later."""

    version: str
    by_environment: bool
    window: bool

    def switched_on(self, request: Request, config: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, str]]:
        """(arguments, environment) for a profiler that is there, and not yet started.

        Without `ignore_frontend` the server's own process is profiled as well, which breaks on NPUs. It refuses
        a profiler where msmonitor is asked for.
        """
        env = {"MSMONITOR_USE_DAEMON": "0"}
        if self.by_environment:
            stack, memory = str(int(request.with_stack)), str(int(request.profile_memory))
            env |= {"VLLM_TORCH_PROFILER_DIR": PLACE, "VLLM_RPC_TIMEOUT": RPC_MS}
            env |= {"VLLM_TORCH_PROFILER_WITH_STACK": stack, "VLLM_TORCH_PROFILER_WITH_PROFILE_MEMORY": memory}
            return (), env
        values = {
            "profiler": "torch",
            "torch_profiler_dir": PLACE,
            "torch_profiler_with_stack": str(request.with_stack).lower(),
            "torch_profiler_with_memory": str(request.profile_memory).lower(),
            "ignore_frontend": "true",
            **{name: str(value) for name, value in config.items()},
        }
        return tuple(_joined(f"--profiler-config.{name}=", value) for name, value in values.items()), env


def of(version: str | None) -> Release:
    """By its version; the newest when that is not known."""
    found = re.match(r"0\.(\d+)", version or "")
    minor = int(found[1]) if found else 99
    return Release(version or "(newest)", by_environment=minor < 14, window=minor >= 20)


def _joined(name: str, value: str) -> str:
    return Named(name + value) if isinstance(value, Named) else name + value


def started_and_stopped(phase: str, watch: Sequence[str] = ()) -> dict[str, Any]:
    """What the start-up shim is asked of a profiler without a window; `watch`: calls before it that are warm-up."""
    watched = [{"call": name, "phase": None} for name in watch]
    return {"windows": {phase: None}, "phase_by": [], "phase": phase, "step_on": [], "watch": watched}
