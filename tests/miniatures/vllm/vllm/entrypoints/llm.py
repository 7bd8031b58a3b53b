"""Offline inference."""

from __future__ import annotations

import atexit
from typing import Any

from vllm.config import EngineConfig, profiler_config
from vllm.sampling import RequestOutput, SamplingParams, tokens_of
from vllm.v1.core import EngineClient


class LLM:
    def __init__(
        self,
        model: str,
        *,
        tensor_parallel_size: int = 1,
        max_model_len: int = 4096,
        profiler_config: dict[str, Any] | None = None,
        enable_prefix_caching: bool = True,
    ) -> None:
        config = EngineConfig(
            model=model,
            tensor_parallel_size=tensor_parallel_size,
            max_model_len=max_model_len,
            enable_prefix_caching=enable_prefix_caching,
            profiler=_profiler(profiler_config),
        )
        self._engine = EngineClient(config)
        atexit.register(self._engine.shutdown)

    def generate(self, prompts: Any, sampling_params: SamplingParams | None = None) -> list[RequestOutput]:
        several = prompts if isinstance(prompts, list) else [prompts]
        params = sampling_params or SamplingParams()
        return list(self._engine.ask("generate", ([tokens_of(one) for one in several], params)))

    def start_profile(self) -> None:
        self._engine.ask("profile", True)

    def stop_profile(self) -> None:
        self._engine.ask("profile", False)


def _profiler(given: dict[str, Any] | None) -> Any:
    return profiler_config(given)
