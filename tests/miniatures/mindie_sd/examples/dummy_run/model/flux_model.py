from __future__ import annotations

from diffusers import FluxTransformer2DModel

from . import Pipeline


class FluxPipeline(Pipeline):
    """One transformer."""


def build_flux_pipeline(num_layers: int, device: str) -> FluxPipeline:
    return FluxPipeline(FluxTransformer2DModel(48, num_layers), None, 48).to(device)
