"""cann-recipes-infer, offline: its own launcher, on a copy of the model's YAML that lies in the run's directory.

Read in hicann/cann-recipes-infer @ fbc225d (2026-08-21) and its history. `executor/scripts/infer.sh` launches every model
since 2026-05-13; it takes a YAML from anywhere, names the directory of its logs by the file, and ends with status 0
whatever became of its ranks.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from ..errors import EnvironmentUnfit, UsageError
from ..inventory import ModelSpec
from ..inventory.options import one_of, text
from ..project import ProjectFacts, Wants
from ..request import Request, Window
from .plan import Launch, Named, Plan, driven
from .recipes_yaml import Config, read
from .route import Match, Route

LAUNCHER, MANAGER, RUNNER = "executor/scripts/infer.sh", "executor/utils/profiler_context.py", "executor/model_runner.py"
SET_ENV, PLACEHOLDER = "executor/scripts/set_env.sh", "your_cann_pkgs_path"
WARM_UP = "executor.core.engine.execution_engine:ExecutionEngine.warm_up"
PROFILER_WARMUP = 1
# The engine records its first batch of prefill and no other: there is nothing to skip.
FIRST = {"skip_first": 0, "wait": 0, "warmup": 0, "active": 1}


def wants(options: Mapping[str, Any]) -> Wants:
    model, name, _ = _named(options)
    return Wants((LAUNCHER, MANAGER, RUNNER, SET_ENV, f"models/{model}/infer.py", f"models/{model}/config/*.yaml", name))


def detect(model: ModelSpec, facts: ProjectFacts) -> Match | None:
    for path, word in ((MANAGER, "class ProfilerManager"), (RUNNER, "define_profiler")):
        if LAUNCHER in facts.texts and word in facts.texts.get(path, ""):
            return Match((f"{path} has its profiler", f"{LAUNCHER} launches it"))
    return None


def plan(request: Request, window: Window, model: ModelSpec, facts: ProjectFacts) -> Plan:
    of, name, mode = _named(model.options)
    _check(of, name, mode, model, facts)
    config = read(facts.texts[name], name, request.rank_count)
    own_loop = f"models/{of}/infer.py" in facts.texts
    steps = _steps(request, window, config, own_loop)
    before = request.warmup_steps + PROFILER_WARMUP
    # The engine decodes max_new_tokens times; a loop of a model's own has the first token from its prefill. One more
    # than the window needs, so that nothing is saved while the program ends.
    tokens = max(config.tokens, before + steps.get("decode", -before) + 1 + own_loop)
    windows = {
        "prefill": None if own_loop else FIRST,
        "decode": {"skip_first": request.warmup_steps, "wait": 0, "warmup": PROFILER_WARMUP, "active": steps.get("decode")},
    }
    shim = {
        "windows": {phase: windows[phase] for phase in steps},
        "phase_by": [[rf"(^|/){phase}(/|$)", phase] for phase in ("prefill", "decode")],
        "phase": None,
        "step_on": [],
        "watch": [] if own_loop else [{"call": WARM_UP, "phase": None}],
    }
    copy = f"{posixpath.splitext(posixpath.basename(name))[0]}__collect_remote.yaml"
    up = "../" * (facts.path.count("/") + 3)  # from models/<model>/config to the root
    launch = Launch(
        ("bash", LAUNCHER, "--model", of, "--mode", mode, "--yaml", Named(f"{up}..{{run}}/{copy}")),
        facts.path,
        shim=shim,
        stop="recorded",
        logs=(f"models/{of}/res/*/*{copy[:-5]}/log_*.log",),
    )
    return driven("cann-recipes", request, launch, steps, files={copy: config.copy(tokens)}, notes=config.notes(tokens))
