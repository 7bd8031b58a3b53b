"""A project that carries a module of ours (`collect-remote template --for`): it is switched on by its environment."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ..errors import EnvironmentUnfit
from ..inventory.hosts import ModelSpec
from ..request import Request, Window
from ..survey.project import ProjectFacts, Wants
from ..wrappers import SCENES, marker
from .plan import Launch, Named, Plan, driven
from .route import Match, Route

PHASES = {
    "training": ("train",),
    "inference": ("separate", "prefill", "decode"),
    "service": ("forward",),
    "rl": ("train", "rollout"),
}


def wants(scene: str, _: Mapping[str, Any]) -> Wants:
    return Wants(words=(marker(scene),))


def carried(scene: str, facts: ProjectFacts) -> str | None:
    """The path of the module, where the command reaches it."""
    return next((path for path, words in facts.reached.items() if marker(scene) in words), None)


def detect(scene: str, _: ModelSpec, facts: ProjectFacts) -> Match | None:
    path = carried(scene, facts)
    return Match((f"{path} is the module of `template --for {scene}`",)) if path else None


def plan(scene: str, request: Request, window: Window, model: ModelSpec, facts: ProjectFacts) -> Plan:
    path = carried(scene, facts)
    if path is None:
        raise EnvironmentUnfit(
            f"the command of model {model.name} reaches no module of `collect-remote template --for {scene}`",
            "put one into the project and call it, see docs/own-code.md",
        )
    if scene == "service":
        raise EnvironmentUnfit(
            f"{path} records when the server is asked to, and only its owner knows how it is asked",
            "start the server with NPU_PROFILE, ask it, and judge what it wrote with `collect-remote validate`",
        )
    module = path.removesuffix(".py").replace("/", ".")
    shim = {
        "windows": dict.fromkeys(window.recorded),
        "phase_by": [[rf"/{phase}$", phase] for phase in window.recorded],
        "phase": None,
        "step_on": [],
        # Elsewhere its profiler is there from the first step on, and tells of those before the window.
        "watch": [{"call": f"{module}:run", "phase": None}] if scene == "inference" else [],
    }
    launch = Launch(tuple(model.options["command"]), facts.path, _settings(request, window), shim, stop="recorded")
    return driven(f"wrapper-{scene}", request, launch, window.step_counts)


def _settings(request: Request, window: Window) -> dict[str, str]:
    phases = ",".join(window.recorded)
    return {
        "NPU_PROFILE": Named("{run}/work/npu_profile"),  # the shim has its own place for what is written
        "NPU_PROFILE_FROM": str(request.warmup_steps),
        "NPU_PROFILE_STEPS": str(window.steps),
        "NPU_PROFILE_RANKS": ",".join(map(str, request.profiled_ranks)),
        "NPU_PROFILE_PHASES": phases,
        "NPU_PROFILE_STAGES": phases,
    }


def _route(scene: str) -> Route:
    bound = functools.partial
    return Route(
        *(f"wrapper-{scene}", PHASES[scene], bound(detect, scene), bound(plan, scene), bound(wants, scene)),
        on_several=scene in ("training", "inference"),
    )


ROUTES = tuple(map(_route, SCENES))
