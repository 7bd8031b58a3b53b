from __future__ import annotations

from . import Pipeline, Transformer


class FluxPipeline(Pipeline):
    """One transformer."""


def build_flux_pipeline(num_layers: int, device: str) -> FluxPipeline:
    return FluxPipeline(Transformer(48, num_layers), None, 48).to(device)
