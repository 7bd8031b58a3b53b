"""``torch.optim``: the optimizers that small training loops use."""

from __future__ import annotations

from typing import Any, Tuple

from .._tensor import UNKNOWN
from . import optimizer as optimizer
from .optimizer import Optimizer as Optimizer


class SGD(Optimizer):
    def __init__(self, params: Any, lr: float = 1e-3, momentum: float = 0.0, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})


class Adam(Optimizer):
    def __init__(self, params: Any, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0) -> None:  # fmt: skip
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})


class AdamW(Adam):
    pass


def __getattr__(name: str) -> Any:
    raise AttributeError(UNKNOWN.format("optim." + name))
