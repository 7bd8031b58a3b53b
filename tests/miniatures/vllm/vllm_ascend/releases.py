"""What differs between releases of vllm-ascend where profiles are made."""

from __future__ import annotations

import os
import re
from importlib import metadata
from typing import NamedTuple


class Release(NamedTuple):
    """One generation.

    switch: what turns the profiler on, the variable VLLM_TORCH_PROFILER_DIR or the argument --profiler-config
    aic_metrics: fixed in the source, as the level is
    window: whether delay_iterations and max_iterations count
    worker_names: whether a directory is named after its rank, and not after the host
    lazily: whether a profiler is made when it is first started, not with its worker
    """

    switch: str
    aic_metrics: str
    window: bool
    worker_names: bool
    lazily: bool


def version() -> str:
    """What VLLM_MINIATURE_VERSION says, else that of the distribution."""
    try:
        return os.environ.get("VLLM_MINIATURE_VERSION") or metadata.version("vllm_ascend")
    except metadata.PackageNotFoundError:
        return "0.23.0"


def release(of: str) -> Release:
    found = re.match(r"0\.(\d+)\.", of)
    minor = int(found.group(1)) if found else 99
    pipe = minor in (18, 19) or minor >= 23
    return Release(
        switch="environment" if minor < 14 else "argument",
        aic_metrics="PipeUtilization" if pipe else "AiCoreNone",
        window=minor >= 20,
        worker_names=minor >= 16,
        lazily=minor >= 20,
    )
