"""A stand-in with the shape of diffusers: a pipeline, its scheduler, its transformer. Random weights, latents only."""

from .models.transformer_tiny import TinyTransformer2DModel
from .pipelines.pipeline_tiny import TinyPipeline
from .schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler

__version__ = "0.35.0"
__all__ = ["FlowMatchEulerDiscreteScheduler", "TinyPipeline", "TinyTransformer2DModel"]
