from __future__ import annotations

from . import Pipeline, Transformer


class WanPipeline(Pipeline):
    """Two experts, one for the noisy half."""


def build_wan_pipeline(num_layers: int, device: str) -> WanPipeline:
    return WanPipeline(Transformer(64, num_layers), Transformer(64, num_layers), 64).to(device)
