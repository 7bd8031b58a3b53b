"""Random weights, one warm-up call, one timed call. --profile writes the timed one to ./profile_l1."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from typing import Any

import torch
import torch_npu

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(os.path.dirname(HERE))]
from model import check_npu, compiled  # noqa: E402
from model.flux_model import build_flux_pipeline  # noqa: E402

PROFILE_DIR = "./profile_l1"
PROMPT = "test"
logger = logging.getLogger(__name__)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Flux with random weights")
    parser.add_argument("--device_id", type=int, default=0)
    parser.add_argument("--num_layers", type=int, default=2)
    parser.add_argument("--compile", action="store_true", help="with MindieSDBackend")
    parser.add_argument("--profile", action="store_true", help="NPU profile (level=l1, with_stack=False)")
    parser.add_argument("--height", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--num-frames", type=int, default=1)
    parser.add_argument("--streaming", action="store_true", help="a call continues the last ones")
    return parser.parse_args()


def start_profile() -> Any:
    profiler = torch_npu.profiler.profile(
        activities=[torch_npu.profiler.ProfilerActivity.NPU],
        on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(PROFILE_DIR),
        with_stack=False,
    )
    profiler.start()
    logger.warning("profiling (dir=%s, level=l1)", PROFILE_DIR)
    return profiler


def main() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
    args = parse_args()
    check_npu()
    torch.npu.set_device(args.device_id)
    pipe = build_flux_pipeline(args.num_layers, f"npu:{args.device_id}")
    pipe.streaming = args.streaming
    if args.compile:
        compiled(pipe)
    size = {"height": args.height, "width": args.width, "num_frames": args.num_frames}

    with torch.no_grad():
        pipe(PROMPT, **size, num_inference_steps=1)
    torch.npu.synchronize()

    profiler = start_profile() if args.profile else None
    begin = time.time()
    with torch.no_grad():
        pipe(PROMPT, **size, num_inference_steps=1)
    torch.npu.synchronize()
    logger.warning("inference time: %.2f ms", (time.time() - begin) * 1000)
    if profiler is not None:
        profiler.stop()
        logger.warning("profile saved to %s", PROFILE_DIR)
    logger.warning("Flux PASSED")


if __name__ == "__main__":
    main()
