"""A script with a pipeline of diffusers and no profiler: what lies between two steps of its scheduler is one step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..inventory.hosts import ModelSpec
from ..inventory.options import call
from ..request import Request, Window
from ..survey.project import ProjectFacts, Wants
from .plan import Launch, Plan, driven
from .route import Match, Route

IMPORTS, COMPILES = ("from diffusers", "import diffusers"), ("torch.compile", ".compile(", "torchair", "npugraph_ex")
COMPILATIONS = 8  # torch._dynamo.config.recompile_limit: so often, and no more, is one function compiled
# Module and class of the schedulers with a `step` of diffusers 0.35; which one a pipeline has, its files decide.
SCHEDULERS = {
    "ddim": "DDIM", "ddpm": "DDPM", "deis_multistep": "DEISMultistep", "dpmsolver_multistep": "DPMSolverMultistep",
    "dpmsolver_singlestep": "DPMSolverSinglestep", "dpmsolver_sde": "DPMSolverSDE", "euler_discrete": "EulerDiscrete",
    "euler_ancestral_discrete": "EulerAncestralDiscrete", "flow_match_euler_discrete": "FlowMatchEulerDiscrete",
    "flow_match_heun_discrete": "FlowMatchHeunDiscrete", "flow_match_lcm": "FlowMatchLCM",
    "heun_discrete": "HeunDiscrete", "k_dpm_2_discrete": "KDPM2Discrete",
    "k_dpm_2_ancestral_discrete": "KDPM2AncestralDiscrete", "lcm": "LCM", "lms_discrete": "LMSDiscrete",
    "pndm": "PNDM", "sasolver": "SASolver", "tcd": "TCD", "unipc_multistep": "UniPCMultistep",
    "edm_euler": "EDMEuler", "edm_dpmsolver_multistep": "EDMDPMSolverMultistep",
    "ddim_cogvideox": "CogVideoXDDIM", "dpm_cogvideox": "CogVideoXDPM",
}  # fmt: skip


def wants(_: Mapping[str, Any]) -> Wants:
    return Wants(words=(*IMPORTS, *COMPILES), distributions=("diffusers",))


def detect(_: ModelSpec, facts: ProjectFacts) -> Match | None:
    for path, words in facts.reached.items():
        if any(word in words for word in IMPORTS):
            return Match((f"{path} uses diffusers",), facts.versions.get("diffusers"))
    return None


def plan(request: Request, window: Window, model: ModelSpec, facts: ProjectFacts) -> Plan:
    compiles = [path for path, words in facts.reached.items() if any(word in words for word in COMPILES)]
    before = max(request.warmup_steps, COMPILATIONS) if compiles else request.warmup_steps
    # A step ends with the scheduler's; the denoiser before it is in it but for the profiler's own warm-up step.
    numbers = {"skip_first": before, "wait": 0, "warmup": 1, "active": window.steps}
    own = model.options.get("scheduler")
    calls = [f"{own}.step"] if own else [
        f"diffusers.schedulers.scheduling_{module}:{name}Scheduler.step" for module, name in SCHEDULERS.items()
    ]  # fmt: skip
    shim = {
        "windows": {window.phase: numbers},
        "phase_by": [],
        "phase": window.phase,
        "step_on": [{"call": call, "phase": window.phase} for call in calls],
        "watch": [],
    }
    notes = [f"{compiles[0]} compiles: {before} steps pass first"] if compiles else []
    launch = Launch(tuple(model.options["command"]), facts.path, shim=shim, stop="recorded")
    return driven("diffusers", request, launch, window.step_counts, notes=notes)


ROUTE = Route("diffusers", ("forward",), detect, plan, wants, {"scheduler": call})
