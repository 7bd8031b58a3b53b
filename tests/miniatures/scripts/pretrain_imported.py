"""The same with names that were imported one by one, and start() and stop() instead of `with`."""

from __future__ import annotations

import argparse

from torch_npu.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler
from training import Trainer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-iters", type=int, default=30)
    options = parser.parse_args()
    trainer = Trainer()
    profiler = profile(
        activities=[ProfilerActivity.NPU],
        schedule=schedule(wait=0, warmup=1, active=2, repeat=1, skip_first=3),
        on_trace_ready=tensorboard_trace_handler("./prof_imported"),
    )
    profiler.start()
    for _ in range(options.train_iters):
        trainer.train_step()
        profiler.step()
    profiler.stop()


if __name__ == "__main__":
    main()
