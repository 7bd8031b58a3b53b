"""The arguments of the engine, for the command line and for ``LLM``."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass, field, fields
from typing import Any

from vllm_ascend.releases import release, version


@dataclass
class ProfilerConfig:
    """The values of --profiler-config, with vLLM's defaults."""

    profiler: str | None = None
    torch_profiler_dir: str = ""
    torch_profiler_with_stack: bool = True
    torch_profiler_with_memory: bool = False
    torch_profiler_record_shapes: bool = False
    ignore_frontend: bool = False
    delay_iterations: int = 0
    max_iterations: int = 0
    wait_iterations: int = 0
    warmup_iterations: int = 0
    active_iterations: int = 5

    def __post_init__(self) -> None:
        if self.torch_profiler_dir and self.profiler != "torch":
            raise ValueError("torch_profiler_dir is only applicable when profiler is set to 'torch'")
        if self.profiler == "torch" and not self.torch_profiler_dir:
            raise ValueError("torch_profiler_dir must be set when profiler is 'torch'")
        if self.torch_profiler_dir:
            self.torch_profiler_dir = os.path.abspath(os.path.expanduser(self.torch_profiler_dir))


@dataclass
class EngineConfig:
    model: str
    served_model_name: str = ""
    tensor_parallel_size: int = 1
    max_model_len: int = 4096
    enable_prefix_caching: bool = True
    profiler: ProfilerConfig = field(default_factory=ProfilerConfig)

    @property
    def name(self) -> str:
        return self.served_model_name or self.model


def profiler_config(given: dict[str, Any] | None) -> ProfilerConfig:
    """What was given; in the releases before --profiler-config, what the environment says."""
    if release(version()).switch == "argument":
        known = {item.name for item in fields(ProfilerConfig)}
        if unknown := sorted(set(given or {}) - known):
            raise ValueError(f"profiler_config: unexpected keyword argument {unknown[0]!r}")
        return ProfilerConfig(**(given or {}))
    if given:
        raise TypeError("EngineArgs.__init__() got an unexpected keyword argument 'profiler_config'")
    folder = os.environ.get("VLLM_TORCH_PROFILER_DIR", "")
    return ProfilerConfig(
        profiler="torch" if folder else None,
        torch_profiler_dir=folder,
        torch_profiler_with_stack=os.environ.get("VLLM_TORCH_PROFILER_WITH_STACK", "1") != "0",
        torch_profiler_with_memory=os.environ.get("VLLM_TORCH_PROFILER_WITH_PROFILE_MEMORY", "0") != "0",
    )


def server_arguments(prog: str, positional_model: bool, argv: list[str]) -> tuple[argparse.Namespace, EngineConfig]:
    """Of ``vllm serve MODEL`` or of the module with --model; an unknown argument ends the program with status 2."""
    parser = argparse.ArgumentParser(prog=prog, allow_abbrev=False)
    if positional_model:
        parser.add_argument("model")
    else:
        parser.add_argument("--model", default="facebook/opt-125m")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", default="")
    parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    parser.add_argument("--max-model-len", type=int, default=4096)
    parser.add_argument("--no-enable-prefix-caching", dest="prefix_caching", action="store_false")
    if release(version()).switch == "argument":
        parser.add_argument("--profiler-config", "-pc", type=json.loads, default={})
        argv = _dotted(argv)
    options = parser.parse_args(argv)
    try:
        profiler = profiler_config(getattr(options, "profiler_config", None))
    except (TypeError, ValueError) as problem:
        parser.error(str(problem))
    return options, EngineConfig(
        model=options.model,
        served_model_name=options.served_model_name,
        tensor_parallel_size=options.tensor_parallel_size,
        max_model_len=options.max_model_len,
        enable_prefix_caching=options.prefix_caching,
        profiler=profiler,
    )


def _dotted(argv: list[str]) -> list[str]:
    """``--profiler-config.key=value`` as one JSON argument."""
    found: dict[str, Any] = {}
    rest = []
    for argument in argv:
        if argument.startswith("--profiler-config."):
            key, _, value = argument.partition(".")[2].partition("=")
            try:
                found[key] = json.loads(value)
            except ValueError:
                found[key] = value
        else:
            rest.append(argument)
    return [*rest, "--profiler-config", json.dumps(found)] if found else rest
