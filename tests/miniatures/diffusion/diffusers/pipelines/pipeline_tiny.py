"""`__call__` denoises: prompt, num_inference_steps, callback_on_step_end(pipe, i, t, kwargs).

The transformer also sees its own last outputs, KEPT of them at most: what is compiled for fixed shapes is compiled anew
until as many are there. `streaming` keeps them from one call to the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from ..models.transformer_tiny import TinyTransformer2DModel
from ..schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler

KEPT = 7


class TinyPipeline:
    def __init__(self, transformer: TinyTransformer2DModel, scheduler: FlowMatchEulerDiscreteScheduler) -> None:
        self.transformer, self.scheduler = transformer, scheduler
        self.size, self.device, self.streaming = transformer.size, "cpu", False
        self._last: list[torch.Tensor] = []

    @classmethod
    def from_pretrained(cls, path: str) -> TinyPipeline:
        if not os.path.isdir(path):
            raise OSError(f"{path} is not a local folder and not a model on the hub")
        return cls(TinyTransformer2DModel(), FlowMatchEulerDiscreteScheduler())

    def to(self, device: str) -> TinyPipeline:
        self.transformer.to(device)
        self.device = device
        return self

    def __call__(
        self,
        prompt: str,
        height: int = 64,
        width: int = 64,
        num_inference_steps: int = 20,
        callback_on_step_end: Callable[..., Any] | None = None,
    ) -> SimpleNamespace:
        latents = torch.randn(1, height * width // 64, self.size).to(self.device)
        words = torch.randn(1, max(1, len(prompt.split())), self.size).to(self.device)
        self._last = self._last if self.streaming else []
        self.scheduler.set_timesteps(num_inference_steps)
        for i, t in enumerate(self.scheduler.timesteps):
            time = torch.full((1, 1, 1), t).to(self.device)
            noise = self.transformer(latents, time, torch.cat([words, *self._last], dim=1))
            latents = self.scheduler.step(noise, t, latents).prev_sample
            self._last = [*self._last, noise][-KEPT:]
            if callback_on_step_end is not None:
                callback_on_step_end(self, i, t, {"latents": latents})
        return SimpleNamespace(images=latents)
