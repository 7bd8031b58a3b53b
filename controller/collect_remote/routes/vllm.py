"""vLLM on Ascend: a server that is talked to, or a script of offline inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ..errors import EnvironmentUnfit, UsageError
from ..inventory import ModelSpec
from ..inventory.options import count
from ..project import ProjectFacts, Wants
from ..request import Request, Window
from . import commands, vllm_release
from .plan import Launch, Named, Plan, driven
from .route import Match, Route
from .vllm_release import Release

IMPORTS, STARTS = ("from vllm import", "import vllm", "from vllm."), ".start_profile("
READY_S, SWITCH_S = 1800, 1800  # of large models; a release that parses in place answers the stop only then


def wants(_: Mapping[str, Any]) -> Wants:
    return Wants(words=(*IMPORTS, STARTS), distributions=("vllm_ascend",))


def detect(model: ModelSpec, facts: ProjectFacts) -> Match | None:
    version = facts.versions.get("vllm_ascend")
    installed = f"vllm_ascend {version} is installed" if version else "vllm_ascend is not seen: taken for the newest"
    if "command" in model.options and _serves(commands.words(model, facts)):
        return Match(("the command starts a vLLM server", installed), version)
    for path, found in facts.reached.items():
        if any(word in found for word in IMPORTS):
            return Match((f"{path} imports vllm", installed), version)
    return None


def _serves(said: list[str]) -> bool:
    return "vllm.entrypoints.openai.api_server" in said or any(
        first.rpartition("/")[2] == "vllm" and second == "serve" for first, second in pairwise(said)
    )


def plan(request: Request, window: Window, model: ModelSpec, facts: ProjectFacts) -> Plan:
    release = vllm_release.of(facts.versions.get("vllm_ascend"))
    said = commands.words(model, facts)
    return (_server if _serves(said) else _script)(request, window, model, facts, release)


def _server(request: Request, window: Window, model: ModelSpec, facts: ProjectFacts, release: Release) -> Plan:
    said = commands.words(model, facts)
    _check_devices(request, model, said)
    if window.phase == "decode" and not release.window:
        raise EnvironmentUnfit(
            f"vllm-ascend {release.version} records from its start on, and so no decode without the prefill",
            "ask for --phase both, or update it: from 0.20.2 on a recording can begin later",
        )
    skipped = request.warmup_steps if window.phase == "decode" else 0
    config = {"delay_iterations": 2 + skipped, "max_iterations": window.steps} if window.phase == "decode" else {}
    arguments, env = release.switched_on(request, config)
    notes = ["the server listens on 127.0.0.1 and a free port, for this run alone"]
    if any(word.startswith(("--profiler-config", "-pc")) for word in said):
        notes.append("--profiler-config of the command is replaced")
    launch = Launch(
        commands.appended(model, facts, (*arguments, "--host", "127.0.0.1", "--port", Named("{port}"))),
        facts.path,
        env=env,
        shim=_started_and_stopped(window.phase),
        server=Named("http://127.0.0.1:{port}"),
        trigger=tuple(_talk(request, window, model, skipped)),
        stop="recorded",
    )
    return driven("vllm", request, launch, {window.phase: None}, notes=notes)


def _check_devices(request: Request, model: ModelSpec, said: list[str]) -> None:
    tensor = commands.number(said, "--tensor-parallel-size", "-tp")
    pipeline = commands.number(said, "--pipeline-parallel-size", "-pp")
    if commands.number(said, "--data-parallel-size", "-dp") != 1:
        raise UsageError(
            f"the command of model {model.name} starts several replicas (--data-parallel-size)",
            "leave it out in `command`: one replica shows all there is, and an idle one records nothing",
        )
    devices = tensor * pipeline if tensor and pipeline else request.rank_count
    if devices != request.rank_count:
        raise UsageError(
            f"the command of model {model.name} uses {devices} devices, and {request.rank_count} are asked for",
            f"--devices {devices}",
        )


def _talk(request: Request, window: Window, model: ModelSpec, skipped: int) -> list[dict[str, Any]]:
    """One prompt gives one forward of prefill; every token behind the first, one of decode."""
    options = model.options
    answer = {"prefill": 1, "both": 1 + window.steps, "decode": 2 + skipped + window.steps}[window.phase]
    asked = {
        "path": "/v1/completions",
        "json": {"max_tokens": answer, "temperature": 0, "ignore_eos": True},
        "prompts": {"count": options.get("batch", 1), "tokens": options.get("prompt_tokens", 512)},
        "phase": window.phase,
    }
    loads = window.steps if window.phase == "prefill" else 1
    return [
        {"do": "ready", "path": "/v1/models", "within_s": options.get("ready_timeout", READY_S)},
        {**asked, "do": "check"},
        {**asked, "do": "warmup", "times": request.warmup_steps},
        {"do": "start", "path": "/start_profile", "within_s": SWITCH_S},
        {**asked, "do": "load", "times": loads},
        {"do": "stop", "path": "/stop_profile", "within_s": SWITCH_S},
    ]


def _script(request: Request, window: Window, model: ModelSpec, facts: ProjectFacts, release: Release) -> Plan:
    """Its own recording where it starts one; else the forwards that it comes to are the steps."""
    command = tuple(model.options["command"])
    env: dict[str, str] = {}
    steps: dict[str, int | None] = {**window.step_counts}
    if any(STARTS in found for found in facts.reached.values()):
        if window.phase != "both":
            raise UsageError(
                f"the script of model {model.name} starts and stops its profiler itself, whatever comes in between",
                "ask for --phase both",
            )
        shim, steps = (
            _started_and_stopped(window.phase, [{"call": vllm_release.STEP, "phase": None}]),
            {window.phase: None},
        )
        _, env = release.switched_on(request, {}) if release.by_environment else ((), {})
    else:
        shim = {
            "windows": {
                phase: {"skip_first": request.warmup_steps, "wait": 0, "warmup": 1, "active": active}
                for phase, active in window.step_counts.items()
            },
            "phase_by": [],
            "phase": None,
            "step_on": [{"call": vllm_release.STEP, "phase": None}],
            "watch": [],
        }
    launch = Launch(command, facts.path, env=env, shim=shim, stop="recorded")
    return driven("vllm", request, launch, steps)


def _started_and_stopped(phase: str, watch: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    return {"windows": {phase: None}, "phase_by": [], "phase": phase, "step_on": [], "watch": list(watch)}


ROUTE = Route(
    "vllm",
    ("both", "prefill", "decode"),
    detect,
    plan,
    wants,
    {"prompt_tokens": count, "batch": count, "ready_timeout": count},
)
