"""The profiler of one worker: torch_npu's, without a schedule, started and stopped by two calls."""

from __future__ import annotations

import os
from typing import Any

import torch_npu
from vllm.config import ProfilerConfig

from .releases import Release


def torch_profiler(config: ProfilerConfig, release: Release, rank: int) -> Any:
    if not config.torch_profiler_dir:
        raise RuntimeError("Profiler is not enabled.")
    if os.environ.get("MSMONITOR_USE_DAEMON", "0") != "0":
        raise RuntimeError("MSMONITOR_USE_DAEMON and torch profiler cannot be enabled at the same time.")
    profiler = torch_npu.profiler
    name = f"dp0_pp0_tp{rank}_dcp0_ep{rank}_rank{rank}" if release.worker_names else None
    return profiler.profile(
        activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU],
        with_stack=False,
        profile_memory=config.torch_profiler_with_memory,
        with_modules=config.torch_profiler_with_stack,
        experimental_config=profiler._ExperimentalConfig(
            export_type=profiler.ExportType.Text,
            profiler_level=profiler.ProfilerLevel.Level1,
            aic_metrics=getattr(profiler.AiCMetrics, release.aic_metrics),
            data_simplification=True,
        ),
        on_trace_ready=profiler.tensorboard_trace_handler(config.torch_profiler_dir, worker_name=name),
    )


class WorkerProfiler:
    """Where a release has a window: it opens `delay_iterations` forwards after start, for `max_iterations` of them."""

    def __init__(self, config: ProfilerConfig, release: Release, rank: int) -> None:
        self._delay = config.delay_iterations if release.window else 0
        self._most = config.max_iterations if release.window else 0
        self._profiler: Any = None
        self._make = lambda: torch_profiler(config, release, rank)
        if not release.lazily and config.torch_profiler_dir:
            self._profiler = self._make()
        self._active = self._running = False
        self._forwards = self._recorded = 0

    def start(self) -> None:
        if self._active:
            return
        if self._profiler is None:
            self._profiler = self._make()
        self._active = True
        self._forwards = self._recorded = 0
        if not self._delay:
            self._profiler.start()
            self._running = True

    def step(self) -> None:
        """Before every forward."""
        if not self._active:
            return
        self._forwards += 1
        if self._delay and not self._running and self._forwards == self._delay:
            self._profiler.start()
            self._running = True
        if self._running:
            self._recorded += 1
            if self._most and self._recorded > self._most:
                self._profiler.stop()
                self._running = False

    def stop(self) -> None:
        if not self._active:
            return
        self._active = False
        if self._running:
            self._running = False
            self._profiler.stop()
