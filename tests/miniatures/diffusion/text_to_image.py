"""A user's script without any profiler: load a pipeline, make pictures."""

from __future__ import annotations

import argparse
import os

import torch
import torch_npu  # noqa: F401
from diffusers import TinyPipeline


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "weights"))
    parser.add_argument("--images", type=int, default=1)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--crash-after", type=int, help="denoising steps")
    options = parser.parse_args()

    torch.npu.set_device(0)
    pipe = TinyPipeline.from_pretrained(options.model).to("npu:0")
    if options.compile:
        pipe.transformer = torch.compile(pipe.transformer, backend="eager", dynamic=False)
    done = 0

    def on_step_end(pipe: TinyPipeline, i: int, t: float, kwargs: dict) -> dict:
        nonlocal done
        done += 1
        if done == options.crash_after:
            raise RuntimeError("the safety checker has no weights")
        return kwargs

    with torch.no_grad():
        for number in range(options.images):
            picture = pipe(
                "a lighthouse in the fog", num_inference_steps=options.steps, callback_on_step_end=on_step_end
            ).images
            torch.npu.synchronize()
            print(f"picture {number}: {tuple(picture.shape)}", flush=True)


if __name__ == "__main__":
    main()
