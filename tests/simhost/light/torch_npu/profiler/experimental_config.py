"""Level, metrics, export type and the other switches; wrong values are replaced and warned about, never refused."""

from __future__ import annotations

from typing import Any, List, Optional, Set

from .._faults import fault
from ._messages import info, warn


class ProfilerLevel:
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"
    Level_none = "Level_none"


class AiCMetrics:
    PipeUtilization = "ACL_AICORE_PIPE_UTILIZATION"
    ArithmeticUtilization = "ACL_AICORE_ARITHMETIC_UTILIZATION"
    Memory = "ACL_AICORE_MEMORY_BANDWIDTH"
    MemoryL0 = "ACL_AICORE_L0B_AND_WIDTH"
    MemoryUB = "ACL_AICORE_MEMORY_UB"
    ResourceConflictRatio = "ACL_AICORE_RESOURCE_CONFLICT_RATIO"
    L2Cache = "ACL_AICORE_L2_CACHE"
    MemoryAccess = "ACL_AICORE_MEMORY_ACCESS"
    AiCoreNone = "ACL_AICORE_NONE"


class ExportType:
    Db = "db"
    Text = "text"


class HostSystem:
    CPU = "cpu"
    MEM = "mem"
    DISK = "disk"
    NETWORK = "network"
    OSRT = "osrt"
    NUMA = "numa"


def _values(of: type) -> Set[str]:
    return {value for name, value in vars(of).items() if not name.startswith("_")}


def supported_profiler_level() -> Set[str]:
    return _values(ProfilerLevel)


def supported_ai_core_metrics() -> Set[str]:
    return _values(AiCMetrics)


def supported_export_type() -> Set[str]:
    return _values(ExportType)


class _ExperimentalConfig:
    """The attributes, in this order and with these names, are what profiler_info.json shows."""

    def __init__(
        self,
        profiler_level: str = ProfilerLevel.Level0,
        aic_metrics: str = AiCMetrics.PipeUtilization,
        l2_cache: bool = False,
        msprof_tx: bool = False,
        mstx: bool = False,
        data_simplification: bool = True,
        record_op_args: bool = False,
        op_attr: bool = False,
        gc_detect_threshold: Optional[float] = None,
        export_type: Any = ExportType.Text,
        host_sys: Optional[list] = None,
        mstx_domain_include: Optional[list] = None,
        mstx_domain_exclude: Optional[list] = None,
        sys_io: bool = False,
        sys_interconnection: bool = False,
    ) -> None:
        self._profiler_level = profiler_level
        self._aic_metrics = aic_metrics
        self._l2_cache = l2_cache
        self._msprof_tx = msprof_tx
        self._mstx = mstx
        self._data_simplification = data_simplification
        self.record_op_args = record_op_args
        self._export_type = self._export_types(export_type)
        self._host_sys = host_sys or []
        self._op_attr = op_attr
        self._gc_detect_threshold = gc_detect_threshold
        self._mstx_domain_include = mstx_domain_include or []
        self._mstx_domain_exclude = mstx_domain_exclude or []
        self._sys_io = sys_io
        self._sys_interconnection = sys_interconnection
        self._check()
        if fault("level0") is not None:
            self._profiler_level, self._aic_metrics = ProfilerLevel.Level0, AiCMetrics.AiCoreNone

    @property
    def export_type(self) -> List[str]:
        return self._export_type

    @property
    def with_gc(self) -> bool:
        return self._gc_detect_threshold is not None

    @staticmethod
    def _export_types(asked: Any) -> List[str]:
        if asked and isinstance(asked, str):
            return [asked]
        if asked and isinstance(asked, list):
            return sorted(set(asked), key=asked.index)
        warn("Invalid parameter export_type: {}, reset it to text.".format(asked))
        return [ExportType.Text]

    def _bool(self, name: str, default: bool = False, told: str = "False") -> None:
        if not isinstance(getattr(self, name), bool):
            warn("Invalid parameter {}, which must be of bool type, reset it to {}.".format(name.lstrip("_"), told))
            setattr(self, name, default)

    def _check(self) -> None:
        shallow = self._profiler_level in (ProfilerLevel.Level0, ProfilerLevel.Level_none)
        if shallow and self._aic_metrics != AiCMetrics.AiCoreNone:
            warn("Please use level1 or level2 if you want to collect aic metrics, reset aic metrics to None!")
            self._aic_metrics = AiCMetrics.AiCoreNone
        for name in ("_l2_cache", "_msprof_tx", "_mstx"):
            self._bool(name)
        if self._profiler_level == ProfilerLevel.Level_none and not (self._mstx or self._msprof_tx):
            self._mstx = True
            warn("Parameter mstx or msprof_tx must be True if profiler_level is set to Level_none.")
        if self._data_simplification is not None:
            self._bool("_data_simplification", True, "default")
        self._bool("record_op_args")
        if self._profiler_level not in supported_profiler_level():
            warn("Invalid parameter profiler_level, reset it to ProfilerLevel.Level0.")
            self._profiler_level = ProfilerLevel.Level0
        if self._aic_metrics not in supported_ai_core_metrics():
            warn("Invalid parameter aic_metrics, reset it to default.")
            deep = self._profiler_level != ProfilerLevel.Level0
            self._aic_metrics = AiCMetrics.PipeUtilization if deep else AiCMetrics.AiCoreNone
        self._bool("_op_attr")
        if not set(self._export_type) <= supported_export_type():
            warn("Invalid parameter export_type, reset it to text.")
            self._export_type = [ExportType.Text]
        self._check_gc()
        for name in ("_sys_io", "_sys_interconnection"):
            self._bool(name)
        if not isinstance(self._host_sys, list):
            warn("Invalid parameter host_sys, which must be of list type, reset it to empty.")
            self._host_sys = []
        if not set(self._host_sys) <= _values(HostSystem):
            warn("Invalid parameter host_sys, reset it to empty.")
            self._host_sys = []

    def _check_gc(self) -> None:
        threshold = self._gc_detect_threshold
        if threshold is None:
            return
        if not isinstance(threshold, (int, float)):
            warn("Parameter gc_detect_threshold is not int or float type, reset it to default.")
            self._gc_detect_threshold = None
        elif threshold < 0:
            warn("Parameter gc_detect_threshold can not be negative, reset it to default.")
            self._gc_detect_threshold = None
        elif threshold == 0:
            info("Parameter gc_detect_threshold is set to 0, it will collect all gc events.")
