"""Runs the model on what the scheduler has put into a step."""

from __future__ import annotations

import torch
from vllm.v1.scheduling import SchedulerOutput

from ..model import LlamaForCausalLM


class NPUModelRunner:
    def __init__(self, device: str) -> None:
        self.device = device

    def load_model(self) -> None:
        self.model = LlamaForCausalLM().to(self.device)

    def execute_model(self, scheduler_output: SchedulerOutput) -> int:
        """One forward over all tokens of a step; how many there were."""
        tokens = scheduler_output.tokens
        with torch.no_grad():
            self.model(torch.tensor(tokens, dtype=torch.long, device=self.device))
        torch.npu.synchronize()
        return scheduler_output.total_num_scheduled_tokens
