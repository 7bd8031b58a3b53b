"""A checkout of cann-recipes-infer: which files of it matter, and whether a model of it can be launched at all."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import EnvironmentUnfit, UsageError
from ..survey.project import ProjectFacts

LAUNCHER, SET_ENV = "executor/scripts/infer.sh", "executor/scripts/set_env.sh"
ENGINE = "executor.core.engine.execution_engine:ExecutionEngine"
RUNNER = "executor.model_runner:ModelRunner"  # of models with a loop of their own
PROFILERS = {
    "executor/utils/profiler_context.py": "class ProfilerManager",
    "executor/model_runner.py": "define_profiler",
}
PLACEHOLDER = re.compile(r"^\s*(?:export\s+)?(\w+)=[\"']?your_\w+", re.MULTILINE)


_SERVERS = re.compile(r"^\s*(?:export\s+)?IPs=\(([^)]*)\)", re.MULTILINE)
_ADDRESS = re.compile(r"[0-9a-fA-F.:]+")


def said(options: Mapping[str, Any]) -> dict[str, str]:
    """model, yaml and mode: what the inventory says, else the command; "" where neither does."""
    words = options.get("command", ())
    named = {word[2:]: words[at] for at, word in enumerate(words[:-1], 1) if word.startswith("--")}
    given = {name: str(options.get(name) or named.get(name, "")) for name in ("model", "yaml", "mode")}
    return {**given, "mode": given["mode"] or "offline"}


def config_of(named: Mapping[str, str]) -> str:
    """The model's YAML, relative to the project."""
    return posixpath.normpath(f"models/{named['model']}/config/{named['yaml']}")


def own_loop_of(named: Mapping[str, str]) -> str:
    """The program of a model that does not use the engine."""
    return f"models/{named['model']}/infer.py"


def check(named: Mapping[str, str], model: str, facts: ProjectFacts) -> None:
    """UsageError or EnvironmentUnfit when `model` of the inventory cannot be launched."""
    if named["mode"] != "offline":
        raise UsageError(
            f"route cann-recipes cannot collect from model {model} online: there an engine that decodes never sees the "
            "prefill on which its profiler waits, and records nothing",
            f"collect offline (`mode: offline`), or use `route: script` with `step_on: [{ENGINE}.forward_batch]`",
        )
    if LAUNCHER not in facts.texts:
        raise EnvironmentUnfit(
            f"there is no {LAUNCHER} in {facts.path}: it is no checkout of cann-recipes-infer since May 2026",
            "update it, or use `route: script` with the model's own infer.sh as `command`",
        )
    for name in ("model", "yaml"):
        if not named[name]:
            raise UsageError(f"model {model} says no {name}, which route cann-recipes needs", f"add `{name}:`")
    if config_of(named) not in facts.texts:
        beside = posixpath.dirname(config_of(named)) + "/"
        there = ", ".join(path[len(beside) :] for path in facts.texts if path.startswith(beside))
        raise EnvironmentUnfit(
            f"there is no {config_of(named)} in {facts.path}",
            f"name one that is there: {there}" if there else "correct `model`, the name of a directory in models/",
        )
    if unset := PLACEHOLDER.findall(facts.texts.get(SET_ENV, "")):
        raise EnvironmentUnfit(f"{SET_ENV} in {facts.path} still has a placeholder for {unset[0]}", "fill it in")


def check_servers(model: str, hosts: Sequence[str], facts: ProjectFacts) -> None:
    """EnvironmentUnfit when set_env.sh does not name the servers of a job on `hosts`: each finds its own place there.

    The launcher compares them with the first address that `hostname -I` prints, and takes a host that it does not find
    for the first one (executor/scripts/function.sh @ fbc225d).
    """
    found = _SERVERS.findall(facts.texts.get(SET_ENV, ""))
    servers = [word.strip("\"'") for word in found[-1].split()] if found else []
    if len(servers) < len(hosts) or not all(map(_ADDRESS.fullmatch, servers[: len(hosts)])):
        raise EnvironmentUnfit(
            f"IPs in {SET_ENV} in {facts.path} is ({' '.join(servers)}), and model {model} runs on {len(hosts)} hosts",
            f"write their addresses there, on each of them, in this order: {', '.join(hosts)}; "
            "the first that `hostname -I` prints on each",
        )
