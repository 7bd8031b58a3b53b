from __future__ import annotations

from diffusers import WanTransformer3DModel

from . import Pipeline


class WanPipeline(Pipeline):
    """Two experts, one for the noisy half."""


def build_wan_pipeline(num_layers: int, device: str) -> WanPipeline:
    return WanPipeline(WanTransformer3DModel(64, num_layers), WanTransformer3DModel(64, num_layers), 64).to(device)
