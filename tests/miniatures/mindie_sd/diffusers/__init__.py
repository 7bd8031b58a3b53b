"""A stand-in with the shape of diffusers: what the dummy runs take from it."""

from .models.transformers.transformer_flux import FluxTransformer2DModel
from .models.transformers.transformer_wan import WanTransformer3DModel

__all__ = ["FluxTransformer2DModel", "WanTransformer3DModel"]
