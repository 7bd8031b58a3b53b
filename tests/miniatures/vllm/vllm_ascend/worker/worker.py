"""One worker: one device, one shard of the model, one profiler."""

from __future__ import annotations

import os
import signal
import time

import torch
import torch_npu  # noqa: F401
from vllm.config import EngineConfig
from vllm.troubles import trouble
from vllm.v1.scheduling import SchedulerOutput

from ..profiler import WorkerProfiler
from ..releases import release, version
from .model_runner_v1 import NPUModelRunner


class NPUWorker:
    def __init__(self, config: EngineConfig, rank: int, port: int) -> None:
        self.rank = rank
        self.world = config.tensor_parallel_size
        self.device = f"npu:{rank}"
        torch.npu.set_device(self.device)
        # Also of one: vLLM starts its workers without RANK, the process group knows it.
        meeting = f"tcp://127.0.0.1:{port}"
        torch.distributed.init_process_group("gloo", init_method=meeting, world_size=self.world, rank=rank)
        self.model_runner = NPUModelRunner(self.device)
        self.profiler = WorkerProfiler(config.profiler, release(version()), rank)
        self._forwards_left: int | None = None

    def load_model(self) -> None:
        seconds = trouble("slow_load")
        time.sleep(float(seconds or 0))
        if trouble("dies_loading") is not None and self.rank == self.world - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        while trouble("never_ready") is not None:
            time.sleep(1)
        self.model_runner.load_model()

    def execute_model(self, scheduler_output: SchedulerOutput) -> int:
        self.profiler.step()
        self._perhaps_die()
        return self.model_runner.execute_model(scheduler_output)

    def profile(self, is_start: bool) -> None:
        if is_start:
            at = trouble("dies_serving")
            self._forwards_left = int(at) if at and self.rank == self.world - 1 else None
            self.profiler.start()
        else:
            self.profiler.stop()

    def _perhaps_die(self) -> None:
        if self._forwards_left is not None:
            self._forwards_left -= 1
            if self._forwards_left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
