"""A miniature of vLLM on Ascend: its processes, its endpoints, its profiler switches; not its model.

Written from the documented behaviour of vLLM and vllm-ascend. It needs torch and torch_npu where a worker runs, and
nothing but the standard library elsewhere. ``vllm_ascend/releases.py`` has what differs between releases.
"""

from __future__ import annotations

from .entrypoints.llm import LLM
from .sampling import SamplingParams

__all__ = ["LLM", "SamplingParams"]
