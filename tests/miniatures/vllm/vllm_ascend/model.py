"""A language model in two layers; what it says is not asked."""

from __future__ import annotations

from typing import Any

import torch
from vllm.sampling import VOCABULARY

HIDDEN, INTERMEDIATE = 64, 128


class LlamaForCausalLM(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, HIDDEN)
        self.up = torch.nn.Linear(HIDDEN, INTERMEDIATE, bias=False)
        self.down = torch.nn.Linear(INTERMEDIATE, HIDDEN, bias=False)
        self.head = torch.nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, input_ids: Any) -> Any:
        """(tokens,) -> (tokens, vocabulary): the tokens of all sequences of a step in one row, as vLLM has them."""
        hidden = self.embed(input_ids)
        hidden = hidden + self.down(torch.nn.functional.silu(self.up(hidden)))
        return self.head(hidden)
