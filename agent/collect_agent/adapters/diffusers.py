"""A diffusers-style pipeline: one `forward` step is one whole call of the pipeline.

Options: `path` (a directory on the host, as `save_pretrained` wrote it), dtype, batch (images a call);
everything else is handed to the pipeline's call by name: prompt, height, width, num_inference_steps, ...
Nothing is ever downloaded.
"""

from __future__ import annotations

import inspect
import os
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # read by the hub when it is imported

import diffusers
import torch

DEFAULTS = {"dtype": "bfloat16", "batch": 1, "output_type": "pt"}
BATCH_NAMES = ("num_images_per_prompt", "num_videos_per_prompt", "batch_size")


class State:
    def __init__(self, pipeline: Any, call: dict[str, Any]) -> None:
        self.pipeline, self.call = pipeline, call


def load(device: str, options: dict[str, Any]) -> State:
    o = dict(DEFAULTS, **options)
    path = o.pop("path")
    if not os.path.isdir(path):
        raise FileNotFoundError("no pipeline directory {} on this host".format(path))
    dtype = getattr(torch, o.pop("dtype"))
    pipeline = diffusers.DiffusionPipeline.from_pretrained(path, torch_dtype=dtype, local_files_only=True).to(device)
    pipeline.set_progress_bar_config(disable=True)
    torch.manual_seed(0)
    return State(pipeline, call_arguments(inspect.signature(pipeline.__call__).parameters, o))


def call_arguments(accepted: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments for a pipeline that accepts these names; ValueError for an option it lacks."""
    call = dict(options)
    batch = call.pop("batch")
    name = next((name for name in BATCH_NAMES if name in accepted), None)
    if name:
        call[name] = batch
    elif batch != 1:
        raise ValueError("this pipeline makes one image a call: batch must be 1")
    if "output_type" not in accepted:
        call.pop("output_type")
    unknown = sorted(set(call) - set(accepted))
    if unknown:
        raise ValueError("this pipeline's call has no {}".format(", ".join(unknown)))
    return call


def forward(state: State) -> Any:
    """One call of the pipeline; its images or frames as a tensor."""
    output = state.pipeline(**state.call)
    return torch.as_tensor(output[0])


def check(output: Any) -> None:
    if not bool(torch.isfinite(output.float()).all()):
        raise ValueError("the pipeline's output is not finite")
