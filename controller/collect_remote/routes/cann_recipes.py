"""cann-recipes-infer, offline: its own launcher, on a copy of the model's YAML that lies in the run's directory.

Read in hicann/cann-recipes-infer @ fbc225d (2026-08-21) and its history. `executor/scripts/infer.sh` launches every
model since 2026-05-13; it takes a YAML from anywhere, names the directory of its logs by the file, and ends with
status 0 whatever became of its ranks.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from ..errors import UsageError
from ..inventory.hosts import ModelSpec
from ..inventory.options import one_of, text
from ..request import Request, Window
from ..survey.project import ProjectFacts, Wants
from . import recipes_yaml
from .plan import Launch, Named, Plan, driven
from .recipes_checkout import (
    ENGINE,
    LAUNCHER,
    PROFILERS,
    RUNNER,
    SET_ENV,
    check,
    check_servers,
    config_of,
    own_loop_of,
    said,
)
from .route import Match, Route

PROFILER_WARMUP = 1
# The engine's profiler sees the first batch of prefill and no other; a warm-up of the engine's own was before that.
FIRST = {"skip_first": 0, "wait": 0, "warmup": 0, "active": 1}


def wants(options: Mapping[str, Any]) -> Wants:
    named = said(options)
    beside = f"{posixpath.dirname(config_of(named))}/*.yaml"
    return Wants((LAUNCHER, SET_ENV, *PROFILERS, own_loop_of(named), config_of(named), beside))


def detect(model: ModelSpec, facts: ProjectFacts) -> Match | None:
    config = facts.texts.get(config_of(said(model.options)), "")
    for path, word in PROFILERS.items():
        if LAUNCHER in facts.texts and word in facts.texts.get(path, ""):
            evidence = (f"{path} has a profiler", f"{LAUNCHER} launches its models")
            ranks, nodes = recipes_yaml.ranks_and_nodes(config)
            return Match(evidence, ranks=ranks, nodes=nodes)
    return None


def plan(request: Request, window: Window, model: ModelSpec, facts: ProjectFacts) -> Plan:
    named = said(model.options)
    check(named, model.name, facts)
    config = recipes_yaml.read(facts.texts[config_of(named)], config_of(named))
    recipes_yaml.require_full_hosts(facts.texts[config_of(named)], config_of(named))
    if request.nodes:
        check_servers(model.name, request.nodes, facts)
    own_loop = own_loop_of(named) in facts.texts
    # The engine decodes max_new_tokens times; a loop of a model's own has the first token from its prefill.
    steps, decodes = _steps(request, window, config.tokens - own_loop)
    tokens = max(config.tokens, decodes + own_loop)
    stem = re.sub(r"[^\w.-]", "_", posixpath.splitext(posixpath.basename(config.name))[0]) + "__collect_remote"
    stem += f"_{request.node_rank}" if request.nodes else ""  # hosts may share the checkout, where the logs go
    up = "/".join([".."] * (facts.path.count("/") + 3))  # from models/<model>/config to the root
    launch = Launch(
        ("bash", LAUNCHER, "--model", named["model"], "--yaml", Named(f"{up}{{run}}/{stem}.yaml")),
        facts.path,
        shim=_shim(request, steps, own_loop),
        stop="recorded",
        logs=(f"models/{named['model']}/res/*/*_{stem}/log_*.log",),
    )
    # Nobody knows what comes before the prefill that a loop of a model's own records: its schedule is left to it.
    expected = {phase: None if own_loop and phase == "prefill" else count for phase, count in steps.items()}
    files = {f"{stem}.yaml": config.copy(tokens)}
    return driven("cann-recipes", request, launch, expected, files=files, notes=config.notes(tokens))


def _steps(request: Request, window: Window, decodes: int) -> tuple[dict[str, int], int]:
    """Active steps by phase, and how many decode steps the program has to make for them; it makes `decodes` now."""
    steps, before = dict(window.step_counts), request.warmup_steps + PROFILER_WARMUP
    if steps.get("prefill", 1) > 1:
        raise UsageError(
            f"--steps {steps['prefill']}: cann-recipes-infer records one prefill, the first", "leave --steps out"
        )
    if "decode" not in steps:
        return steps, 0
    if not request.all_steps:
        return steps, before + steps["decode"] + 1  # one more, so that nothing is saved while the program ends
    if decodes <= before:
        raise UsageError(
            f"--steps all: of {decodes} decode steps none is left after {before} before the window",
            "say how many with --steps: max_new_tokens is raised for them",
        )
    return {**steps, "decode": decodes - before}, decodes


def _shim(request: Request, steps: Mapping[str, int], own_loop: bool) -> dict[str, Any]:
    decode = {"skip_first": request.warmup_steps, "wait": 0, "warmup": PROFILER_WARMUP, "active": steps.get("decode")}
    windows = {"prefill": None if own_loop else FIRST, "decode": decode}
    return {
        "windows": {phase: windows[phase] for phase in steps},
        # Which of them a profiler is for shows in its directory: .../prof/decode, or .../decode/prof.
        "phase_by": [[rf"(^|/){phase}(/|$)", phase] for phase in windows],
        "phase": None,
        "step_on": [],
        "watch": [{"call": f"{RUNNER}.model_generate" if own_loop else f"{ENGINE}.warm_up", "phase": None}],
    }


ROUTE = Route(
    "cann-recipes",
    ("separate", "decode", "prefill"),
    detect,
    plan,
    wants,
    {"model": text, "yaml": text, "mode": one_of(("offline", "online"))},
    required=(),
    all_steps=True,
)
