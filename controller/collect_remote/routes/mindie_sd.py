"""MindIE-SD's dummy runs: their own --profile, which by itself is Level0 without CPU activity.

After MindIE-SD 3066189 (2026-05): one warm-up call of the pipeline, then the profiler around one timed call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import EnvironmentUnfit
from ..inventory.hosts import ModelSpec
from ..inventory.options import calls
from ..request import Request, Window
from ..survey.project import ProjectFacts, Wants
from .plan import Launch, Plan, driven
from .route import Match, Route

SWITCH, BACKEND, BUILDS = "--profile", "mindiesd", "torch_npu.profiler"
# The denoiser of each model, whose calls before the profiler starts are its warm-up; diffusers' own names.
DENOISERS = {
    "WanTransformer3DModel": "transformer_wan",
    "FluxTransformer2DModel": "transformer_flux",
    "QwenImageTransformer2DModel": "transformer_qwenimage",
}


def wants(_: Mapping[str, Any]) -> Wants:
    return Wants(words=(SWITCH, BACKEND, BUILDS, *DENOISERS))


def detect(_: ModelSpec, facts: ProjectFacts) -> Match | None:
    """A script of the command that has the switch and the profiler; MindIE-SD is in it, or in what it imports."""
    backed = [path for path, words in facts.reached.items() if BACKEND in words]
    for path in facts.entries:
        if backed and {SWITCH, BUILDS} <= set(facts.reached.get(path, ())):
            return Match((f"{path} has {SWITCH} and a torch_npu profiler, {backed[0]} uses MindIE-SD",))
    return None


def plan(request: Request, window: Window, model: ModelSpec, facts: ProjectFacts) -> Plan:
    command = [word for word in model.options["command"] if word != SWITCH]
    found = {word for words in facts.reached.values() for word in words}
    watch = model.options.get("watch") or [
        f"diffusers.models.transformers.{module}:{name}.forward" for name, module in DENOISERS.items() if name in found
    ]
    if not watch:
        raise EnvironmentUnfit(
            f"nothing in {', '.join(facts.entries) or 'the command'} tells the denoiser of model {model.name}, whose "
            "calls before the profiler starts are the warm-up",
            "name it in the inventory (`watch: [package.module:Class.forward]`)",
        )
    shim = {
        "windows": {window.phase: None},
        "phase_by": [],
        "phase": window.phase,
        "step_on": [],
        "watch": [{"call": call, "phase": window.phase} for call in watch],
    }
    added = [] if SWITCH in model.options["command"] else [f"{SWITCH} is added to the command"]
    notes = [*added, "the profiler is on for one call of the pipeline, whatever --steps"]
    launch = Launch((*command, SWITCH), facts.path, shim=shim, stop="recorded")
    return driven("mindie-sd", request, launch, {window.phase: None}, notes=notes)


ROUTE = Route("mindie-sd", ("forward",), detect, plan, wants, {"watch": calls}, all_steps=True)
