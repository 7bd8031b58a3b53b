"""Pipelines of random weights for the dummy runs: what is the same for all models."""

from __future__ import annotations

import torch
from torch import nn


def check_npu() -> None:
    if not torch.npu.is_available():
        raise SystemExit("no NPU is available")


class Pipeline:
    """One call denoises `num_inference_steps` times, the later half by `transformer_2` where there is one.

    With `streaming` a call continues the last ones: their latents, KEPT of them at most, are context. What is compiled
    for fixed shapes is compiled anew until as many are there.
    """

    KEPT = 7

    def __init__(self, transformer: nn.Module, transformer_2: nn.Module | None, size: int) -> None:
        self.transformer, self.transformer_2, self.size = transformer, transformer_2, size
        self.device, self.streaming = "cpu", False
        self._last: list[torch.Tensor] = []

    def to(self, device: str) -> Pipeline:
        for transformer in (self.transformer, self.transformer_2):
            if transformer is not None:
                transformer.to(device)
        self.device = device
        return self

    def __call__(
        self, prompt: str, height: int, width: int, num_frames: int = 1, num_inference_steps: int = 1
    ) -> torch.Tensor:
        latents = torch.randn(1, height * width // 4096 * num_frames, self.size).to(self.device)
        words = torch.randn(1, max(1, len(prompt.split())), self.size).to(self.device)
        context = torch.cat([words, *self._last], dim=1)
        for step in range(num_inference_steps):
            late = self.transformer_2 is not None and 2 * step >= num_inference_steps
            latents = latents - (self.transformer_2 if late else self.transformer)(latents, context) / 10
        if self.streaming:
            self._last = [*self._last, latents[:, :4]][-self.KEPT :]
        return latents


def compiled(pipe: Pipeline) -> Pipeline:
    from mindiesd.compilation import MindieSDBackend

    for name in ("transformer", "transformer_2"):
        transformer = getattr(pipe, name)
        if transformer is not None:
            setattr(pipe, name, torch.compile(transformer, backend=MindieSDBackend(), dynamic=False))
    return pipe
