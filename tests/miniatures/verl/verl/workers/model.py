"""A policy of two layers; what it says is not asked."""

from __future__ import annotations

from typing import Any

import torch

VOCABULARY, HIDDEN = 512, 64


class Policy(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, HIDDEN)
        self.up = torch.nn.Linear(HIDDEN, 2 * HIDDEN, bias=False)
        self.head = torch.nn.Linear(2 * HIDDEN, VOCABULARY, bias=False)

    def forward(self, input_ids: Any) -> Any:
        """(tokens,) -> (tokens, vocabulary)"""
        return self.head(torch.nn.functional.silu(self.up(self.embed(input_ids))))


def forward(model: Any, tokens: int) -> None:
    with torch.no_grad():
        model(torch.tensor([n % VOCABULARY for n in range(tokens)], dtype=torch.long, device="npu:0"))
    torch.npu.synchronize()
