"""What one profile directory says, and what was asked of it: plain data, gathered before anything is
judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from ..trace.tally import Trace
from .aggregates import ApiStatistic, OpStatistic, StepTime
from .database import Database
from .kernels import Kernels
from .messages import Found
from .tables import whole_number

OUTPUT = "ASCEND_PROFILER_OUTPUT"
INFO_NAME = re.compile(r"profiler_info(?:_(\d{1,9}))?\.json$")

# torch_npu.profiler.AiCMetrics, and what profiler_info.json calls its values (torch_npu 2.13.0,
# _constant.py).
METRICS = {
    "ACL_AICORE_PIPE_UTILIZATION": "PipeUtilization",
    "ACL_AICORE_ARITHMETIC_UTILIZATION": "ArithmeticUtilization",
    "ACL_AICORE_MEMORY_BANDWIDTH": "Memory",
    "ACL_AICORE_L0B_AND_WIDTH": "MemoryL0",
    "ACL_AICORE_MEMORY_UB": "MemoryUB",
    "ACL_AICORE_RESOURCE_CONFLICT_RATIO": "ResourceConflictRatio",
    "ACL_AICORE_L2_CACHE": "L2Cache",
    "ACL_AICORE_MEMORY_ACCESS": "MemoryAccess",
    "ACL_AICORE_NONE": "AiCoreNone",
}


class FileFact(NamedTuple):
    """Bytes, and seconds since the epoch."""

    size: int
    mtime: int


@dataclass
class Info:
    """profiler_info*.json: the configuration the profiler really used, written when it was stopped."""

    name: str
    document: Dict[str, Any]

    @property
    def rank(self) -> Optional[int]:
        """The rank of the file's name; None for the single-card form without one."""
        number = INFO_NAME.match(self.name)
        return int(number.group(1)) if number and number.group(1) else None

    @property
    def stated_rank(self) -> Optional[int]:
        """`rank_id`, a string when it came from the environment; -1 or absent without ranks."""
        try:
            rank = int(self.document["rank_id"])
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        return rank if rank >= 0 else None

    @property
    def level(self) -> Optional[str]:
        return _text(self._experimental.get("_profiler_level"))

    @property
    def metrics(self) -> Optional[str]:
        value = _text(self._experimental.get("_aic_metrics"))
        return METRICS.get(value, value) if value else None

    @property
    def export(self) -> Tuple[str, ...]:
        """ "text" and/or "db"; a plain string before torch_npu 7, text before there was a choice."""
        value = self._experimental.get("_export_type", "text")
        return tuple(str(item) for item in (value if isinstance(value, list) else [value]))

    @property
    def cpu(self) -> bool:
        activities = self._common.get("activities")
        return not isinstance(activities, list) or any("CPU" in str(activity) for activity in activities)

    @property
    def memory(self) -> bool:
        return self._common.get("profile_memory") is True

    @property
    def schedule(self) -> Dict[str, int]:
        """wait, warmup, active, repeat, skip_first in steps; {} for the default schedule (start and stop)."""
        schedule = self._common.get("schedule")
        if not isinstance(schedule, dict):
            return {}
        counts = {name.lstrip("_"): _integer(value) for name, value in schedule.items()}
        return {name: count for name, count in counts.items() if count is not None and count >= 0}

    @property
    def versions(self) -> Dict[str, str]:
        return {key: str(self.document[key]) for key in ("torch_npu_version", "cann_version") if key in self.document}

    @property
    def ended(self) -> Optional[int]:
        """Nanoseconds since the epoch."""
        return _integer(self._part("end_info").get("collectionTimeEnd"))

    @property
    def window_ns(self) -> Optional[int]:
        """How long the profiler was on, by the host's monotonic clock."""
        begin = _integer(self._part("start_info").get("start_monotonic"))
        end = _integer(self._part("end_info").get("MonotonicTimeEnd"))
        return end - begin if begin is not None and end is not None and end >= begin else None

    @property
    def _common(self) -> Dict[str, Any]:
        return _mapping(self._part("config").get("common_config"))

    @property
    def _experimental(self) -> Dict[str, Any]:
        return _mapping(self._part("config").get("experimental_config"))

    def _part(self, name: str) -> Dict[str, Any]:
        return _mapping(self.document.get(name))


@dataclass(frozen=True)
class Expected:
    """What was asked for. Empty or None: nobody said."""

    level: str = "Level1"
    metrics: str = "PipeUtilization"
    export: Tuple[str, ...] = ()
    steps: Dict[str, Optional[int]] = field(default_factory=dict)  # None: started and stopped, nobody counts
    ranks: Tuple[int, ...] = ()
    since: Optional[float] = None
    warmup: Dict[str, Any] = field(default_factory=dict)
    hosts: int = 1

    @classmethod
    def of(cls, document: Optional[Dict[str, Any]]) -> "Expected":
        """From {"level", "aic_metrics", "export", "steps", "ranks", "since", "warmup", "hosts"}, each of which may
        be absent.
        """
        asked = {key: value for key, value in (document or {}).items() if value is not None}
        level = str(asked.get("level", cls.level))
        # Level0 resets the metrics, with a warning (torch_npu experimental_config.py).
        metrics = str(asked.get("aic_metrics", cls.metrics)) if level in ("Level1", "Level2") else "AiCoreNone"
        return cls(
            level=level,
            metrics=metrics,
            export=tuple(str(kind).lower() for kind in asked.get("export", ())),
            steps={
                str(phase): None if count is None else int(count) for phase, count in asked.get("steps", {}).items()
            },
            ranks=tuple(int(rank) for rank in asked.get("ranks", ())),
            since=float(asked["since"]) if "since" in asked else None,
            warmup={str(phase): _record(record) for phase, record in asked.get("warmup", {}).items()},
            hosts=int(asked.get("hosts", 1)),
        )

    def steps_of(self, phase: Optional[str]) -> Optional[int]:
        """Steps asked for in `phase`; a profile that names no phase stands for the only one asked for."""
        count = self._of_phase(self.steps, phase)
        return None if count is None else int(count)

    def warmup_of(self, phase: Optional[str]) -> Optional[Dict[str, Any]]:
        record = self._of_phase(self.warmup, phase)
        return None if record is None else dict(record)

    @staticmethod
    def _of_phase(values: Dict[str, Any], phase: Optional[str]) -> Any:
        if phase is None and len(values) == 1:
            return next(iter(values.values()))
        return values.get(phase or "")


@dataclass
class Facts:
    """Everything read from one profile. A file that could not be read stands in `damage` with the reason."""

    directory: str  # relative to the path that was given
    name: str  # of the directory, as torch_npu made it
    phase: Optional[str] = None
    asked: Expected = field(default_factory=Expected)
    files: Dict[str, FileFact] = field(default_factory=dict)
    damage: Dict[str, str] = field(default_factory=dict)
    info: Optional[Info] = None
    kernels: Optional[Kernels] = None
    step_times: Optional[List[StepTime]] = None
    op_statistic: Optional[OpStatistic] = None
    api_statistic: Optional[ApiStatistic] = None
    trace: Optional[Trace] = None
    collectives: Optional[Set[int]] = None  # starts by communication.json, in whole microseconds
    databases: Dict[str, Database] = field(default_factory=dict)
    messages: List[Found] = field(default_factory=list)

    @property
    def bare(self) -> bool:
        """Whether only the parser's output is at hand, without the directory that torch_npu made around it."""
        return not self.name.endswith("_ascend_pt") and all(path.startswith(OUTPUT + "/") for path in self.files)

    def has(self, name: str) -> bool:
        """Whether the parser's output holds the file `name`, whatever state it is in."""
        return "%s/%s" % (OUTPUT, name) in self.files

    def output(self, suffix: str) -> List[str]:
        """Names in the parser's output that end in `suffix`."""
        return [
            path[len(OUTPUT) + 1 :] for path in self.files if path.startswith(OUTPUT + "/") and path.endswith(suffix)
        ]

    @property
    def rank(self) -> Optional[int]:
        """Of the name of profiler_info_<rank>.json, else of its contents; None on a single card."""
        if self.info is None:
            return None
        return self.info.rank if self.info.rank is not None else self.info.stated_rank

    @property
    def exports(self) -> Tuple[str, ...]:
        """What it was parsed as: by its configuration, or anew, as text in place of a database."""
        kinds = self.info.export if self.info else ()
        if "text" not in kinds and self.has("kernel_details.csv"):
            return ("text", "db") if self.output(".db") else ("text",)
        return kinds

    @property
    def exports_text(self) -> bool:
        return "text" in self.exports if self.info else not self.output(".db") or bool(self.output(".csv"))

    @property
    def level0(self) -> bool:
        """Level0, or no level at all: no task ids, no core counters, no statistics."""
        if self.info and self.info.level:
            return self.info.level not in ("Level1", "Level2")
        return self.kernels is not None and "Task ID" not in self.kernels.columns

    @property
    def chip(self) -> Optional[str]:
        """Chip name of a database, else the family that the column names show; None where nothing tells."""
        for database in self.databases.values():
            if database.chip:
                return database.chip
        names = set(self.kernels.columns) if self.kernels else set()
        if "aic_mte3_ratio" in names:
            return "950"
        if "aic_mac_ratio" in names or "aiv_vec_ratio" in names:
            return "910B/A2/A3"
        if "mac_ratio" in names or "vec_ratio" in names:
            return "910A/310P"
        return None

    @property
    def step_ids(self) -> Tuple[int, ...]:
        """Ids of the recorded steps: of the databases without text, else of the table, else of the kernels."""
        ids = {step for database in self.databases.values() for step in database.steps}
        if self.step_times:
            ids = whole_numbers(row.step for row in self.step_times)
        elif self.kernels is not None:
            ids = whole_numbers(step for _, step in self.kernels.steps)
        return tuple(sorted(ids))


def _record(record: Dict[str, Any]) -> Dict[str, Any]:
    """The steps of one phase: seconds of each, what kind each was, recompilations in the window (None: not counted)."""
    seconds = {key: [float(second) for second in record.get(key) or ()] for key in ("warmup_seconds", "step_seconds")}
    kinds = {key: [str(kind) for kind in record.get(key) or ()] for key in ("warmup_kinds", "step_kinds")}
    recompiles = record.get("recompiles")
    return {**seconds, **kinds, "recompiles": None if recompiles is None else int(recompiles)}


def _mapping(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) else None


def _integer(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def whole_numbers(cells: Iterable[str]) -> Set[int]:
    """The whole numbers among `cells`."""
    return {number for number in map(whole_number, cells) if number is not None}
