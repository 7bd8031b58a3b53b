"""The worker of actor and reference: one process, one device, one rank."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from ..releases import release, version
from ..utils.profiler import DistProfiler, settings


class ActorRolloutRefWorker:
    def __init__(self, config: dict[str, Any]) -> None:
        import torch
        import torch_npu  # noqa: F401

        from .model import Policy, forward

        self.forward = forward
        self.config = config
        self.rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        if world > 1:
            torch.distributed.init_process_group("gloo", rank=self.rank, world_size=world)
        torch.npu.set_device("npu:0")
        self.model = Policy().to("npu:0")
        of = release(version())
        self.profiler = DistProfiler(self.rank, settings(config, "actor", of.keys, of.export))
        self.of_reference = DistProfiler(self.rank, settings(config, "ref", of.keys, of.export))

    def start_profile(self, step: int) -> None:
        self.profiler.start(step)
        self.of_reference.start(step)

    def stop_profile(self) -> None:
        self.profiler.stop()
        self.of_reference.stop()

    def generate_sequences(self) -> None:
        """Rollout in this process, under the actor's profiler, as releases without an agent loop have it."""
        with self.profiler.stage("rollout_generate"):
            self.forward(self.model, self.config["data"]["max_prompt_length"])
            for _ in range(self.config["data"]["max_response_length"] - 1):
                self.forward(self.model, 1)

    def compute_log_prob(self) -> None:
        with self.profiler.stage("actor_compute_log_prob"):
            self.forward(self.model, self._tokens())

    def compute_ref_log_prob(self) -> None:
        with self.of_reference.stage("ref_compute_log_prob"):
            self.forward(self.model, self._tokens())

    def update_actor(self, step: int) -> int:
        if os.environ.get("VERL_MINIATURE_ROLE_DIES") == f"{self.rank}:{step}":
            os.kill(os.getpid(), signal.SIGKILL)
        while os.environ.get("VERL_MINIATURE_ROLE_HANGS") == f"{self.rank}:{step}":
            time.sleep(1)
        with self.profiler.stage("actor_update"):
            for _ in range(2):  # micro-batches
                self.forward(self.model, self._tokens())
        return step

    def _tokens(self) -> int:
        data = self.config["data"]
        return int(data["max_prompt_length"]) + int(data["max_response_length"])
