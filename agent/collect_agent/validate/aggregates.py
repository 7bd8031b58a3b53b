"""The small tables beside `kernel_details.csv`: step_trace_time, op_statistic, api_statistic. Times in
picoseconds.
"""

from __future__ import annotations

import io
from typing import Dict, Iterator, List, NamedTuple, Set, Tuple

from ..trace.stream import Damage
from .tables import columns, picoseconds, rows, whole_number

LAST_DIGIT = 1000  # picoseconds: the tools write three decimals of a microsecond, some cut off, some rounded
MANY_ROWS = 100_000  # of a table that sums up

STEP_COLUMNS = (
    "Step",
    "Computing",
    "Communication(Not Overlapped)",
    "Overlapped",
    "Communication",
    "Free",
    "Stage",
    "Bubble",
    "Communication(Not Overlapped and Exclude Receive)",
)
OP_COLUMNS = (
    "OP Type",
    "Core Type",
    "Count",
    "Total Time(us)",
    "Min Time(us)",
    "Avg Time(us)",
    "Max Time(us)",
    "Ratio(%)",
)
API_COLUMNS = ("Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance")
# Of tables that are read for their form only; columns that all versions seen have in common.
OTHER_COLUMNS = {
    "operator_details.csv": (
        "Name",
        "Input Shapes",
        "Call Stack",
        "Host Self Duration(us)",
        "Host Total Duration(us)",
        "Device Self Duration(us)",
        "Device Total Duration(us)",
        "Device Self Duration With AICore(us)",
        "Device Total Duration With AICore(us)",
    ),
    "operator_memory.csv": (
        "Name",
        "Size(KB)",
        "Allocation Time(us)",
        "Release Time(us)",
        "Duration(us)",
        "Device Type",
    ),
    "memory_record.csv": ("Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Device Type"),
    "npu_module_mem.csv": ("Component", "Timestamp(us)", "Total Reserved(MB)", "Device"),
}


class StepTime(NamedTuple):
    """One row of step_trace_time.csv; `step` and `device` as written, "" where absent."""

    device: str
    step: str
    computing: int
    not_overlapped: int
    communication: int
    free: int
    stage: int
    bubble: int


class OpStatistic(NamedTuple):
    """op_statistic.csv: (count, time) by device ("" without that column), type and core; `ratio`, summed, in millionths
    of a percent; the first row that contradicts itself ("" when none does).
    """

    types: Dict[Tuple[str, str, str], Tuple[int, int]]
    ratio: int
    contradiction: str

    @property
    def kernels(self) -> int:
        return sum(count for count, _ in self.types.values())

    @property
    def total(self) -> int:
        return sum(time for _, time in self.types.values())


class ApiStatistic(NamedTuple):
    """api_statistic.csv: its rows, and the first that contradicts itself ("" when none does)."""

    rows: int
    contradiction: str


def _table(raw: io.RawIOBase, wanted: Tuple[str, ...]) -> Tuple[Dict[str, int], Iterator[List[str]]]:
    table = rows(raw)
    header = next(table)
    at = columns(header, ("Device_id", *wanted))
    missing = [name for name in wanted if name not in at]
    if missing:
        raise Damage("has no column %s" % ", ".join(missing))
    return at, table


def step_times(raw: io.RawIOBase) -> List[StepTime]:
    """The rows of step_trace_time.csv; Damage when a column is missing or a cell is no number."""
    at, table = _table(raw, STEP_COLUMNS)
    return [
        StepTime(
            row[at["Device_id"]].strip() if "Device_id" in at else "",
            row[at["Step"]].strip(),
            picoseconds(row[at["Computing"]]),
            picoseconds(row[at["Communication(Not Overlapped)"]]),
            picoseconds(row[at["Communication"]]),
            picoseconds(row[at["Free"]]),
            picoseconds(row[at["Stage"]]),
            picoseconds(row[at["Bubble"]]),
        )
        for row in _unique(table, [at[name] for name in ("Device_id", "Step") if name in at])
    ]


def op_statistic(raw: io.RawIOBase) -> OpStatistic:
    """Sums of op_statistic.csv; Damage when a column is missing, a cell is no number, or a row is there twice."""
    at, table = _table(raw, OP_COLUMNS)
    types: Dict[Tuple[str, str, str], Tuple[int, int]] = {}
    ratio, contradiction = 0, ""
    for row in _unique(table, [at[name] for name in ("Device_id", "OP Type", "Core Type") if name in at]):
        count, total = _count(row[at["Count"]]), picoseconds(row[at["Total Time(us)"]])
        device = row[at["Device_id"]] if "Device_id" in at else ""
        types[device, row[at["OP Type"]], row[at["Core Type"]]] = (count, total)
        ratio += picoseconds(row[at["Ratio(%)"]])
        avg, low, high = (picoseconds(row[at[name]]) for name in ("Avg Time(us)", "Min Time(us)", "Max Time(us)"))
        if not contradiction and not _consistent(total, count, avg, low, high):
            contradiction = row[at["OP Type"]]
    return OpStatistic(types, ratio, contradiction)


def api_statistic(raw: io.RawIOBase) -> ApiStatistic:
    """Rows of api_statistic.csv held against themselves: Min <= Avg <= Max, and Avg times Count is Time."""
    at, table = _table(raw, API_COLUMNS)
    found, contradiction = 0, ""
    for row in _unique(table, [at[name] for name in ("Device_id", "Level", "API Name") if name in at]):
        found += 1
        count = _count(row[at["Count"]])
        time, avg, low, high = (picoseconds(row[at[name]]) for name in ("Time(us)", "Avg(us)", "Min(us)", "Max(us)"))
        if not contradiction and not _consistent(time, count, avg, low, high):
            contradiction = row[at["API Name"]]
    return ApiStatistic(found, contradiction)


def _consistent(total: int, count: int, avg: int, low: int, high: int) -> bool:
    """Whether the times of `count` calls can be so; Avg may be off by its last digit, times Count in the product."""
    whole = abs(avg * count - total) <= (count + 1) * LAST_DIGIT
    return whole and low - LAST_DIGIT <= avg <= high + LAST_DIGIT


def _unique(table: Iterator[List[str]], key: List[int]) -> Iterator[List[str]]:
    """The rows of `table`; Damage when two have the same cells at the positions `key`."""
    seen: Set[Tuple[str, ...]] = set()
    for row in table:
        cells = tuple(row[position].strip() for position in key)
        if cells in seen:
            raise Damage("has two rows of %s" % " ".join(cells))
        seen.add(cells)
        if len(seen) > MANY_ROWS:
            raise Damage("has more than %d rows" % MANY_ROWS)
        yield row


def other(raw: io.RawIOBase, name: str) -> None:
    """Read the table `name` to its end; Damage when it is not whole or lacks a column."""
    _, table = _table(raw, OTHER_COLUMNS.get(name, ()))
    for _ in table:
        pass


def _count(cell: str) -> int:
    count = whole_number(cell)
    if count is None:
        raise Damage("holds %r where a count belongs" % cell[:40])
    return count
