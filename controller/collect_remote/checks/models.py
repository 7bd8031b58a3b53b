"""The files of the model."""

from __future__ import annotations

from ..errors import EnvironmentUnfit
from ..inventory import ModelSpec
from ..survey import Facts
from .check import Check, failed, ok


def files(facts: Facts, model: ModelSpec) -> Check:
    path = model.options.get("path")
    if not isinstance(path, str):
        return ok("model", f"{model.name} needs no files {facts.place}")
    problem = facts.models[path]
    if problem is None:
        return ok("model", f"{model.name}: {path} can be read")
    return failed(
        "model",
        EnvironmentUnfit(
            f"{path}, the `path` of model {model.name}, {problem} {facts.place}",
            "correct `path` in the inventory, or bring the files there and make them readable",
        ),
    )
