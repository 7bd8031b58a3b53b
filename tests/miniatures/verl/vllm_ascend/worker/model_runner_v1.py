"""Runs the model on what is scheduled in a step."""

from __future__ import annotations

from typing import Any, NamedTuple

from verl.workers.model import forward


class SchedulerOutput(NamedTuple):
    num_scheduled_tokens: dict[str, int]


class NPUModelRunner:
    def __init__(self, model: Any) -> None:
        self.model = model

    def execute_model(self, scheduler_output: SchedulerOutput) -> None:
        forward(self.model, sum(scheduler_output.num_scheduled_tokens.values()))
