"""A language model with the shape of those of transformers: `forward(input_ids, cache)` and `generate`."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import nn


class TinyForCausalLM(nn.Module):
    def __init__(self, vocab: int = 256, size: int = 64) -> None:
        super().__init__()
        self.size = size
        self.embed = nn.Embedding(vocab, size)
        self.q, self.k, self.v = (nn.Linear(size, size, bias=False) for _ in range(3))
        self.mlp = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 2 * size), nn.SiLU(), nn.Linear(2 * size, size))
        self.head = nn.Linear(size, vocab, bias=False)

    def forward(
        self, input_ids: torch.Tensor, cache: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> SimpleNamespace:
        x = self.embed(input_ids)
        k, v = self.k(x), self.v(x)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=1), torch.cat([cache[1], v], dim=1)
        x = x + torch.softmax(self.q(x) @ k.transpose(1, 2) * self.size**-0.5, dim=-1) @ v
        return SimpleNamespace(logits=self.head(x + self.mlp(x)), cache=(k, v))

    @torch.no_grad()
    def generate(self, input_ids: torch.Tensor, max_new_tokens: int) -> torch.Tensor:
        """One call of `forward` with the prompt, then one a token."""
        tokens, step, cache = input_ids, input_ids, None
        for _ in range(max_new_tokens):
            out = self(step, cache)
            step, cache = out.logits[:, -1].argmax(-1, keepdim=True), out.cache
            tokens = torch.cat([tokens, step], dim=1)
        return tokens
