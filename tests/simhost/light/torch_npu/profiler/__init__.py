"""``torch_npu.profiler``, after torch_npu 2.13.0."""

from __future__ import annotations

from ._interface import ProfilerActivity, supported_activities
from .experimental_config import (
    AiCMetrics,
    ExportType,
    HostSystem,
    ProfilerLevel,
    _ExperimentalConfig,
    supported_ai_core_metrics,
    supported_export_type,
    supported_profiler_level,
)
from .profiler import _KinetoProfile as _KinetoProfile
from .profiler import analyse as analyse
from .profiler import profile, tensorboard_trace_handler
from .scheduler import ProfilerAction
from .scheduler import Schedule as schedule

__all__ = [
    "profile", "ProfilerActivity", "supported_activities", "tensorboard_trace_handler", "schedule", "ProfilerAction",
    "_ExperimentalConfig", "supported_profiler_level", "supported_ai_core_metrics", "supported_export_type",
    "ProfilerLevel", "AiCMetrics", "ExportType", "HostSystem",
]  # fmt: skip
