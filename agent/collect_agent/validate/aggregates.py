"""The small tables beside `kernel_details.csv`: step_trace_time, op_statistic, api_statistic. Times in
picoseconds.
"""

from __future__ import annotations

import io
from typing import Dict, Iterator, List, NamedTuple, Tuple

from ..trace.stream import Damage
from .tables import columns, picoseconds, rows, whole_number

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
    """Sums over op_statistic.csv: its rows, the kernels they count, their time, `ratio` in millionths of a percent."""

    kinds: int
    kernels: int
    total: int
    ratio: int


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
        for row in table
    ]


def op_statistic(raw: io.RawIOBase) -> OpStatistic:
    """Sums of op_statistic.csv; Damage when a column is missing or a cell is no number."""
    at, table = _table(raw, OP_COLUMNS)
    count = kinds = total = ratio = 0
    for row in table:
        kinds += 1
        count += _count(row[at["Count"]])
        total += picoseconds(row[at["Total Time(us)"]])
        ratio += picoseconds(row[at["Ratio(%)"]])
    return OpStatistic(kinds, count, total, ratio)


def api_statistic(raw: io.RawIOBase) -> ApiStatistic:
    """Rows of api_statistic.csv held against themselves: Min <= Avg <= Max, and Avg times Count is Time.

    The tool rounds to three decimals, so Avg may be off by half of the last one, times Count in the product.
    """
    at, table = _table(raw, API_COLUMNS)
    found, contradiction = 0, ""
    rounding = 500  # half of the third decimal of a microsecond, in picoseconds
    for row in table:
        found += 1
        count = _count(row[at["Count"]])
        time, avg, low, high = (picoseconds(row[at[name]]) for name in ("Time(us)", "Avg(us)", "Min(us)", "Max(us)"))
        good = low - rounding <= avg <= high + rounding and abs(avg * count - time) <= (count + 1) * rounding
        if not good and not contradiction:
            contradiction = row[at["API Name"]]
    return ApiStatistic(found, contradiction)


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
