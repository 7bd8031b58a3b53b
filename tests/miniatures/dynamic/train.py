"""A training job that goes on until it is told to stop, or for --train-iters steps."""

from __future__ import annotations

import argparse
import os
import time

import torch
import torch_npu  # noqa: F401
from torch import nn


class HomeMade:
    """An optimizer of somebody's own, which torch knows nothing of."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters

    def step(self) -> None:
        with torch.no_grad():
            for parameter in self.parameters:
                parameter.mul_(0.999)

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-iters", type=int, default=1000)
    parser.add_argument("--step-seconds", type=float, default=0.02)
    parser.add_argument("--home-made-optimizer", action="store_true")
    parser.add_argument("--evaluate-at", type=int, help="iteration behind which it evaluates, for a minute")
    options = parser.parse_args()
    torch.npu.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)).to("npu")
    parameters = list(model.parameters())
    optimizer = HomeMade(parameters) if options.home_made_optimizer else torch.optim.SGD(parameters, lr=0.01)
    for iteration in range(options.train_iters):
        loss = model(torch.randn(16, 64).to("npu")).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.npu.synchronize()
        if iteration % 50 == 0:
            print(f"iteration {iteration}", flush=True)
        time.sleep(60 if iteration == options.evaluate_at else options.step_seconds)


if __name__ == "__main__":
    main()
