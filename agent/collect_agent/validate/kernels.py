"""`kernel_details.csv`: one pass that leaves what the checks need, per device and step."""

from __future__ import annotations

import io
import re
from typing import Dict, List, Optional, Set, Tuple

from ..trace.sketch import Sketch, time_key
from ..trace.stream import Damage
from .intervals import Union
from .tables import PS_PER_US, columns, picoseconds, rows

RATIO = re.compile(r"^(aic_|aiv_)?(mac|vec|mte2)(_exe)?_ratio$")
AI_CORES = ("AI_CORE", "AI_VECTOR_CORE")
COMMUNICATION_CORES = ("HCCL", "COMMUNICATION")
NAMED = ("Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)")
# Only at Level0 are these two left out.
NAMED_LEVEL1 = ("Stream ID", "Task ID")
SHAPES = tuple(side + what for side in ("Input ", "Output ") for what in ("Shapes", "Data Types", "Formats"))
CORES = {"aic_": ("aicore_time(us)", "aic_total_cycles"), "aiv_": ("aiv_time(us)", "aiv_total_cycles")}
# Every pipe is measured as a time and as a share, on all chips whose exports were seen.
PIPE = re.compile(r"^((?:aic_|aiv_)?(?:mac|vec|scalar|mte1|mte2|mte3|fixpipe))_(time\(us\)|ratio)$")
# Beside the pipes, what Level0 and PipeUtilization have in any export seen or read of in the sources.
KNOWN = {
    *(*NAMED, *NAMED_LEVEL1, *SHAPES, *CORES["aic_"], *CORES["aiv_"], "Step Id", "Device_id", "Model ID", "OP State"),
    *("Block Dim", "Block Num", "Mix Block Dim", "Mix Block Num", "HF32 Eligible", "Context ID", "total_cycles"),
    *("icache_miss_rate", "aic_icache_miss_rate", "aiv_icache_miss_rate", "memory_bound", "cube_utilization(%)"),
}
OTHER_CHIPS = re.compile(r"^(aic_|aiv_)?\w+_(exe|preload)_ratio$")  # of 310B and chip V5 (msprof's tables of metrics)
MANY_TYPES = 10_000
MANY_COLLECTIVES = 10_000

Step = Tuple[str, str]  # Device_id and Step Id as written, "" where the column or the value is not there


class StepKernels:
    """The kernels of one step on one device, from `first` start to `last` end; times in picoseconds of the epoch."""

    def __init__(self, first: int) -> None:
        self.kernels = 0
        self.communication = 0
        self.duration = 0
        self.first = first
        self.last = first
        self.computing = Union()
        self.communicating = Union()


class Kernels:
    """What kernel_details.csv says."""

    def __init__(self, header: List[str]) -> None:
        self.columns = header
        self.ratios = [name for name in header if RATIO.match(name)]
        self.rows = 0
        self.steps: Dict[Step, StepKernels] = {}
        self.cores: Dict[str, int] = {}
        # (device, type, core) -> [rows, duration] of compute rows; device "" where there is no such column
        self.types: Dict[Tuple[str, str, str], List[int]] = {}
        self.collectives: Set[int] = set()  # starts of communication rows in a step, in whole microseconds
        self.compute_rows = 0
        self.compute_duration = 0
        self.ai_core_rows = 0
        self.measured_rows = 0  # AI-core rows with a number in a ratio column
        self.nonzero_rows = 0
        self.compile_names = 0
        self.starts = Sketch()  # of compute rows: collectives begin a nanosecond off the slices of their tasks

    @property
    def first(self) -> Optional[int]:
        return min((step.first for step in self.steps.values()), default=None)

    @property
    def last(self) -> int:
        return max((step.last for step in self.steps.values()), default=0)

    def missing(self, level0: bool) -> List[str]:
        """Columns that must be there by name and are not."""
        wanted = list(NAMED if level0 else NAMED + NAMED_LEVEL1)
        wanted += SHAPES if not set(SHAPES).isdisjoint(self.columns) else ()
        pipes = {match.group(1) for match in map(PIPE.match, self.columns) if match}
        wanted += [pipe + end for pipe in sorted(pipes) for end in ("_time(us)", "_ratio")]
        for core, whole in CORES.items():
            wanted += whole if any(pipe.startswith(core) for pipe in pipes) else ()
        wanted += ["aicore_time(us)"] if pipes and "aicore_time(us)" not in wanted else []
        if self.compute_rows and "Block Num" not in self.columns:
            wanted.append("Block Dim")
        return [name for name in wanted if name not in self.columns]

    def unknown(self) -> List[str]:
        """Columns that no known export has at Level0 or with PipeUtilization."""
        patterns = (PIPE, RATIO, OTHER_CHIPS)
        others = [name for name in self.columns if name not in KNOWN]
        return [name for name in others if not any(pattern.match(name) for pattern in patterns)]


class _Table:
    """Rows of kernel_details.csv by the positions of its columns, into `kernels`."""

    def __init__(self, kernels: Kernels, at: Dict[str, int]) -> None:
        self._kernels = kernels
        self._name, self._type, self._core = at["Name"], at["Type"], at["Accelerator Core"]
        self._start, self._duration = at["Start Time(us)"], at["Duration(us)"]
        optional = columns(kernels.columns, ("Device_id", "Step Id"))
        self._device, self._step = optional.get("Device_id"), optional.get("Step Id")
        self._ratios = [kernels.columns.index(name) for name in kernels.ratios]

    def add(self, row: List[str]) -> None:
        kernels, core, name = self._kernels, row[self._core], row[self._name]
        kernels.rows += 1
        kernels.cores[core] = kernels.cores.get(core, 0) + 1
        start, duration = picoseconds(row[self._start]), picoseconds(row[self._duration])
        key = (row[self._device] if self._device is not None else "", row[self._step] if self._step is not None else "")
        step = kernels.steps.get(key)
        if step is None:
            step = kernels.steps[key] = StepKernels(start)
        step.kernels += 1
        step.first = min(step.first, start)
        step.last = max(step.last, start + duration)
        if core in COMMUNICATION_CORES or name.startswith("hcom_"):
            step.communication += 1
            step.communicating.add(start, start + duration)
            if key[1] and len(kernels.collectives) < MANY_COLLECTIVES:
                kernels.collectives.add(start // PS_PER_US)
            return
        step.duration += duration
        step.computing.add(start, start + duration)
        self._add_compute(row, (key[0], row[self._type], core), name, duration)

    def _add_compute(self, row: List[str], kind: Tuple[str, str, str], name: str, duration: int) -> None:
        kernels = self._kernels
        kernels.compute_rows += 1
        kernels.compute_duration += duration
        kernels.starts.add(time_key(row[self._start]))
        of_type = kernels.types.get(kind)
        if of_type is None:
            of_type = kernels.types[kind] = [0, 0]
            if len(kernels.types) > MANY_TYPES:
                raise Damage("names more than %d types of operators and cores" % MANY_TYPES)
        of_type[0] += 1
        of_type[1] += duration
        if "compile" in name.lower() or "jit" in name.lower():
            kernels.compile_names += 1
        if kind[2] in AI_CORES or kind[2].startswith("MIX_"):
            kernels.ai_core_rows += 1
            measured, nonzero = _measured(row, self._ratios)
            kernels.measured_rows += measured
            kernels.nonzero_rows += nonzero


def read(raw: io.RawIOBase) -> Kernels:
    """Read the whole table; Damage when it is not one, or a start time or duration is not a number.

    When one of the columns that all of this rests on is missing, only the header is kept.
    """
    rows_of_table = rows(raw)
    kernels = Kernels(next(rows_of_table))
    at = columns(kernels.columns, NAMED)
    if len(at) < len(NAMED):
        return kernels
    table, before = _Table(kernels, at), kernels.columns
    for row in rows_of_table:
        if row == before:  # of two kernels at least the start would differ
            raise Damage("has its row %d twice" % kernels.rows)
        before = row
        table.add(row)
        if len(kernels.cores) > MANY_TYPES:
            raise Damage("names more than %d accelerator cores" % MANY_TYPES)
    return kernels


def _measured(row: List[str], ratio_at: List[int]) -> Tuple[bool, bool]:
    """Whether one of the cells is a number, and whether one is not 0."""
    measured = False
    for position in ratio_at:
        value = _number(row[position])
        if value:
            return True, True
        measured = measured or value is not None
    return measured, False


def _number(cell: str) -> Optional[float]:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if value == value else None  # "nan" is a float and not a measurement
