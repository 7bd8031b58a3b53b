"""A training loop without any profiler."""

from __future__ import annotations

import argparse

import torch
import torch_npu  # noqa: F401
from training import Trainer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-iters", type=int, default=30)
    options = parser.parse_args()
    trainer = Trainer()
    for iteration in range(options.train_iters):
        trainer.train_step()
        if iteration % 10 == 0:
            torch.npu.synchronize()
            print(f"iteration {iteration}", flush=True)


if __name__ == "__main__":
    main()
