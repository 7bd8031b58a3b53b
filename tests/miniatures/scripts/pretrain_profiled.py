"""A training loop with a profiler of its own: two steps from the third on, Level0, below ./prof."""

from __future__ import annotations

import argparse

import torch_npu
from training import Trainer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-iters", type=int, default=30)
    options = parser.parse_args()
    trainer = Trainer()
    with torch_npu.profiler.profile(
        activities=[torch_npu.profiler.ProfilerActivity.CPU, torch_npu.profiler.ProfilerActivity.NPU],
        schedule=torch_npu.profiler.schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=torch_npu.profiler.tensorboard_trace_handler("./prof"),
    ) as profiler:
        for iteration in range(options.train_iters):
            trainer.train_step()
            profiler.step()
            if iteration % 10 == 0:
                print(f"iteration {iteration}", flush=True)


if __name__ == "__main__":
    main()
