"""What the training scripts share: the model, its data, one step."""

from __future__ import annotations

import torch
from tinylm import TinyForCausalLM


class Trainer:
    def __init__(self) -> None:
        torch.npu.set_device(0)
        self.model = TinyForCausalLM().to("npu:0")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def train_step(self) -> torch.Tensor:
        tokens = torch.randint(0, 256, (2, 32)).to("npu:0")
        loss = self.model(tokens).logits.float().pow(2).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss
