"""A training job that runs already, with PROF_CONFIG_PATH: torch_npu looks at a file there, and profiles by itself.

The project of such a model is that directory. After torch_npu 2.13.0, `_non_intrusive_profile` and `dynamic_profile`.
"""

from __future__ import annotations

import json

from ..errors import EnvironmentUnfit, UsageError
from ..inventory.hosts import ModelSpec
from ..inventory.options import count
from ..request import Request, Window
from ..survey.project import ProjectFacts, Wants
from .plan import Plan, expected
from .route import Match, Route

FILE = "profiler_config.json"
WARMUP = 1  # of the profiler's own schedule
BEGIN_S = 300  # it looks at the file every 50 s at most, and then waits for the end of a step


def detect(_: ModelSpec, facts: ProjectFacts) -> Match | None:
    if FILE not in facts.texts or "experimental_config" not in facts.texts[FILE]:
        return None
    return Match((f"{FILE} is what a job with PROF_CONFIG_PATH looks at",))


def plan(request: Request, window: Window, model: ModelSpec, facts: ProjectFacts) -> Plan:
    if request.steps not in (None, 1):
        raise UsageError(
            f"a job that runs already is recorded for one step, not for {request.steps}: its next one begins inside of "
            "the optimizer's, where torch_npu's parser gives kernels to no step",
            "leave --steps out, or start the program anew by another route",
        )
    if detect(model, facts) is None:
        raise EnvironmentUnfit(
            f"there is no {FILE} in {facts.path}: no job has been started with PROF_CONFIG_PATH={facts.path}",
            "start the job with that variable, or correct `project`: torch_npu makes the file when it is imported",
        )
    asked = expected(request, {window.phase: 1})
    config = {
        "activities": ["CPU", "NPU"],
        "start_step": -1,  # now
        "warmup": WARMUP,
        "active": 1,
        "analyse": False,  # in a process of its own, so that no other rank waits for it
        **{name: getattr(request, name) for name in ("with_stack", "record_shapes", "profile_memory")},
        "experimental_config": {
            "profiler_level": asked["level"],
            "aic_metrics": asked["aic_metrics"],
            "export_type": asked["export"],
        },
    }
    return Plan(
        route="dynamic",
        files={
            "attend.json": json.dumps(
                {"directory": facts.path, "config": config, "begin_s": model.options.get("begin_timeout", BEGIN_S)},
                indent=1,
            )
        },
        argv=("{python}", "{agent}", "attend", "{run}"),
        env={},
        expected=asked,
        notes=(f"{facts.path}/{FILE} is changed while the job records, and is what it was when that is over",),
        leased=False,
    )


ROUTE = Route(
    "dynamic",
    ("train",),
    detect,
    plan,
    lambda _: Wants(files=(FILE,)),
    {"begin_timeout": count},
    required=(),
    on_several=False,
)
