"""What all scenes share: the settings, and one recording of a number of steps."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

DIRECTORY = os.environ.get("NPU_PROFILE", "")  # nothing: everything below does nothing
PARSE = "python3 -c 'from torch_npu.profiler.profiler import analyse; analyse(\"{}\")'"


def setting(name: str, default: str) -> str:
    return os.environ.get(f"NPU_PROFILE_{name}", default)


def refused(name: str, value: object, remedy: str) -> SystemExit:
    return SystemExit(f"NPU_PROFILE_{name} is {value!r}: {remedy}")


def number(name: str, default: int, least: int = 0) -> int:
    text = setting(name, str(default))
    if not text.isdecimal() or int(text) < least:
        raise refused(name, text, f"give a whole number from {least} on")
    return int(text)


def rank() -> int:
    """Of this process, by its launcher or its process group; 0 where there is one process."""
    for name in ("RANK", "RANK_ID"):
        if os.environ.get(name, "").isdecimal():
            return int(os.environ[name])
    import torch

    distributed = torch.distributed
    return int(distributed.get_rank()) if distributed.is_available() and distributed.is_initialized() else 0


def wanted() -> bool:
    """Whether this process is to be profiled."""
    ranks = setting("RANKS", "0")
    return bool(DIRECTORY) and (ranks == "all" or str(rank()) in ranks.split(","))


def say(text: str) -> None:
    print("npu profile: " + text, file=sys.stderr, flush=True)


def experimental_config(api: Any) -> Any:
    level, metrics = setting("LEVEL", "1"), setting("METRICS", "PipeUtilization")
    if level not in ("0", "1", "2"):
        raise refused("LEVEL", level, "give 0, 1 or 2")
    if not hasattr(api.AiCMetrics, metrics):
        raise refused("METRICS", metrics, "give a name of torch_npu.profiler.AiCMetrics")
    return api._ExperimentalConfig(
        profiler_level=getattr(api.ProfilerLevel, f"Level{level}"),
        aic_metrics=getattr(api.AiCMetrics, metrics if level != "0" else "AiCoreNone"),
        export_type=api.ExportType.Text,
    )


class Recording:
    """`active` steps below <directory>/<phase>, after `skip` that only pass by and `warmup` of the profiler's own.

    There is one profiler a process: who begins a second one gets a RuntimeError. Each `step()` waits for the device, so
    that a step holds its own kernels; the window closes by itself with the last one. Without `on` nothing is recorded.
    """

    current: Recording | None = None

    def __init__(
        self, phase: str, active: int, skip: int = 0, warmup: int = 1, directory: str = DIRECTORY, on: bool = True
    ) -> None:
        self.phase: str = phase
        self.directory, self.needed, self.calls = Path(directory).resolve() / phase, skip + warmup + active, 0
        if not on:
            return
        if Recording.current is not None:
            raise RuntimeError(f"{Recording.current.phase} is being recorded: one profiler a process")
        # Not where other ranks would wait for it in a collective, nor in a daemon, which may not.
        self.parses = os.environ.get("WORLD_SIZE", "1") == "1" and not multiprocessing.current_process().daemon
        self._profiler = self._started(skip, warmup, active)
        Recording.current = self

    def _started(self, skip: int, warmup: int, active: int) -> Any:
        import torch_npu

        api = torch_npu.profiler
        config = experimental_config(api)
        self.directory.mkdir(mode=0o750, parents=True, exist_ok=True)  # the parser refuses what others may write to
        profiler = api.profile(
            activities=[api.ProfilerActivity.CPU, api.ProfilerActivity.NPU],
            schedule=api.schedule(skip_first=skip, wait=0, warmup=warmup, active=active, repeat=1),
            on_trace_ready=api.tensorboard_trace_handler(str(self.directory), analyse_flag=self.parses),
            experimental_config=config,
        )
        profiler.start()
        return profiler

    @property
    def open(self) -> bool:
        return Recording.current is self

    def step(self) -> None:
        """The end of one step."""
        if not self.open:
            return
        import torch

        torch.npu.synchronize()
        self._profiler.step()
        self.calls += 1
        if self.calls == self.needed:
            self._profiler.step()
            self.close()

    def close(self) -> None:
        """The end of the recording, whether or not it has all of its steps."""
        if not self.open:
            return
        Recording.current = None
        self._profiler.stop()
        if self.calls < self.needed:
            say(f"{self.phase} ended after {self.calls} steps of {self.needed}: not complete, ask for fewer")
        else:
            say(f"recorded {self.directory}" + ("" if self.parses else "; parse it: " + PARSE.format(self.directory)))
