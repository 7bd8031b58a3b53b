"""`kernel_details.csv`: one pass that leaves what the checks need, per device and step."""

from __future__ import annotations

import io
import re
from array import array
from typing import Dict, List, Optional, Set, Tuple

from ..trace.sketch import Sketch, time_key
from ..trace.stream import Damage
from .tables import columns, picoseconds, rows

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
MANY_TYPES = 1000

Step = Tuple[str, str]  # Device_id and Step Id as written, "" where the column or the value is not there


class Union:
    """Total length of a union of intervals [start, end), added in any order; exact integers.

    Every CANN seen writes its rows in order of start time, and then intervals are merged as they come. For
    the others they are kept, 16 bytes each, and merged at the end.
    """

    def __init__(self) -> None:
        self._base: Optional[int] = None
        self._start = self._end = 0
        self._starts, self._ends = array("q"), array("q")
        self._in_order = True

    def add(self, start: int, end: int) -> None:
        if self._base is None:
            self._base = start
            self._start, self._end = start, end
        elif self._start <= start <= self._end:
            self._end = max(self._end, end)
        else:
            self._keep()
            self._in_order = self._in_order and start > self._end
            self._start, self._end = start, end

    def length(self) -> int:
        if self._base is None:
            return 0
        if self._in_order:
            return sum(self._ends) - sum(self._starts) + self._end - self._start
        self._keep()
        total, reach = 0, min(self._starts)
        for index in sorted(range(len(self._starts)), key=self._starts.__getitem__):
            start, end = max(self._starts[index], reach), self._ends[index]
            if end > start:
                total, reach = total + end - start, end
        return total

    def _keep(self) -> None:
        base = self._base or 0
        try:
            self._starts.append(self._start - base)
            self._ends.append(self._end - base)
        except OverflowError:
            raise Damage("holds times more than 100 days apart") from None


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
        self.types: Set[str] = set()
        self.compute_rows = 0
        self.compute_duration = 0
        self.ai_core_rows = 0
        self.measured_rows = 0  # AI-core rows with a number in a ratio column
        self.nonzero_rows = 0
        self.compile_names = 0
        self.starts = Sketch()

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
        if self.compute_rows and "Block Num" not in self.columns:
            wanted.append("Block Dim")
        return [name for name in wanted if name not in self.columns]


def read(raw: io.RawIOBase) -> Kernels:
    """Read the whole table; Damage when it is not one, or a start time or duration is not a number.

    When one of the columns that all of this rests on is missing, only the header is kept.
    """
    table = rows(raw)
    kernels = Kernels(next(table))
    at = columns(kernels.columns, NAMED)
    if len(at) < len(NAMED):
        return kernels
    name_at, type_at, core_at = at["Name"], at["Type"], at["Accelerator Core"]
    start_at, duration_at = at["Start Time(us)"], at["Duration(us)"]
    optional = columns(kernels.columns, ("Device_id", "Step Id"))
    device_at, step_at = optional.get("Device_id"), optional.get("Step Id")
    ratio_at = [kernels.columns.index(name) for name in kernels.ratios]
    for row in table:
        kernels.rows += 1
        core, name = row[core_at], row[name_at]
        kernels.cores[core] = kernels.cores.get(core, 0) + 1
        if len(kernels.cores) > MANY_TYPES:
            raise Damage("names more than %d accelerator cores" % MANY_TYPES)
        kernels.starts.add(time_key(row[start_at]))
        start, duration = picoseconds(row[start_at]), picoseconds(row[duration_at])
        key = (row[device_at] if device_at is not None else "", row[step_at] if step_at is not None else "")
        step = kernels.steps.get(key)
        if step is None:
            step = kernels.steps[key] = StepKernels(start)
        step.kernels += 1
        step.first = min(step.first, start)
        step.last = max(step.last, start + duration)
        if core in COMMUNICATION_CORES or name.startswith("hcom_"):
            step.communication += 1
            step.communicating.add(start, start + duration)
            continue
        step.duration += duration
        step.computing.add(start, start + duration)
        kernels.compute_rows += 1
        kernels.compute_duration += duration
        if len(kernels.types) < MANY_TYPES:
            kernels.types.add(row[type_at])
        if "compile" in name.lower() or "jit" in name.lower():
            kernels.compile_names += 1
        if core in AI_CORES or core.startswith("MIX_"):
            kernels.ai_core_rows += 1
            values = [_number(row[position]) for position in ratio_at]
            kernels.measured_rows += any(value is not None for value in values)
            kernels.nonzero_rows += any(value for value in values)
    return kernels


def _number(cell: str) -> Optional[float]:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if value == value else None  # "nan" is a float and not a measurement
