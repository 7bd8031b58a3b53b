"""A denoiser: latents, a time, a prompt and the last outputs in, noise out."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.q, self.k, self.v = nn.Linear(size, size), nn.Linear(size, size), nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 2 * size), nn.SiLU(), nn.Linear(2 * size, size))

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        scores = self.q(self.norm(x)) @ self.k(context).transpose(1, 2)
        x = x + torch.softmax(scores, dim=-1) @ self.v(context)
        return x + self.mlp(x)


class TinyTransformer2DModel(nn.Module):
    def __init__(self, size: int = 64, num_layers: int = 2) -> None:
        super().__init__()
        self.size = size
        self.blocks = nn.ModuleList([Block(size) for _ in range(num_layers)])
        self.out = nn.Linear(size, size)

    def forward(self, latents: torch.Tensor, time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        x = latents + time
        for block in self.blocks:
            x = block(x, context)
        return self.out(x)
