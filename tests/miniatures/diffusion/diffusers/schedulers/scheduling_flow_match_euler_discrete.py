"""One `step` a denoising step, as every scheduler of diffusers has it."""

from __future__ import annotations

from types import SimpleNamespace

import torch


class FlowMatchEulerDiscreteScheduler:
    def __init__(self) -> None:
        self.sigmas = [1.0, 0.0]
        self.timesteps = [1000.0]

    def set_timesteps(self, num_inference_steps: int) -> None:
        self.sigmas = [1.0 - i / num_inference_steps for i in range(num_inference_steps + 1)]
        self.timesteps = [1000.0 * sigma for sigma in self.sigmas[:-1]]

    def step(self, model_output: torch.Tensor, timestep: float, sample: torch.Tensor) -> SimpleNamespace:
        at = self.timesteps.index(timestep)
        change = self.sigmas[at + 1] - self.sigmas[at]
        return SimpleNamespace(prev_sample=sample + model_output * change)
