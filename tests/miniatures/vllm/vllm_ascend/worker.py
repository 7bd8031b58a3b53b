"""One worker: one device, one shard of the model, one profiler."""

from __future__ import annotations

import os
import signal
import time

import torch
import torch_npu  # noqa: F401
from vllm.config import EngineConfig
from vllm.troubles import trouble

from .model import LlamaForCausalLM
from .profiler import WorkerProfiler
from .releases import release, version


class NPUWorker:
    def __init__(self, config: EngineConfig, rank: int, port: int) -> None:
        self.rank = rank
        self.world = config.tensor_parallel_size
        self.device = f"npu:{rank}"
        torch.npu.set_device(self.device)
        if self.world > 1:  # vLLM starts its workers without RANK: the process group knows it
            torch.distributed.init_process_group(
                "gloo", init_method=f"tcp://127.0.0.1:{port}", world_size=self.world, rank=rank
            )
        self.profiler = WorkerProfiler(config.profiler, release(version()), rank)
        self._forwards_left: int | None = None

    def load_model(self) -> None:
        seconds = trouble("slow_load")
        time.sleep(float(seconds or 0))
        if trouble("dies_loading") is not None and self.rank == self.world - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        while trouble("never_ready") is not None:
            time.sleep(1)
        self.model = LlamaForCausalLM().to(self.device)

    def execute_model(self, tokens: list[int]) -> int:
        """One forward over all tokens of a step; how many there were."""
        self.profiler.step()
        self._perhaps_die()
        with torch.no_grad():
            self.model(torch.tensor(tokens, dtype=torch.long, device=self.device))
        torch.npu.synchronize()
        return len(tokens)

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
