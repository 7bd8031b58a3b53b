from __future__ import annotations

import torch
from torch import nn


class WanTransformer3DModel(nn.Module):
    def __init__(self, size: int, num_layers: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            [nn.Sequential(nn.LayerNorm(size), nn.Linear(size, size), nn.SiLU()) for _ in range(num_layers)]
        )

    def forward(self, latents: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        x = torch.cat([latents, context], dim=1)
        for block in self.blocks:
            x = x + block(x)
        return x[:, : latents.shape[1]]
