"""`msprof --export=on --type=db`: the same data as tables, in `<PROF directory>/msprof_<digits>.db`.

Only what torch_npu reads and what its users' tools ask for first: tasks, kernels, their counters, host calls.
Strings are numbers into STRING_IDS; times are ns since the epoch; counters of time are ns.
"""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Any, Dict, List

import kernels as model

NODE, ACL = 10000, 20000  # of ENUM_API_TYPE
_NOTHING = 4294967295
# CANN's own names for what op_summary calls by its time.
_TOTALS = {"aicore_time(us)": "aic_total_time", "aiv_time(us)": "aiv_total_time"}

SCHEMA = """
CREATE TABLE NPU_INFO (id INTEGER, name TEXT);
CREATE TABLE SESSION_TIME_INFO (startTimeNs INTEGER, endTimeNs INTEGER);
CREATE TABLE RANK_DEVICE_MAP (rankId INTEGER, deviceId INTEGER);
CREATE TABLE META_DATA (name TEXT, value TEXT);
CREATE TABLE ENUM_API_TYPE (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE CANN_API (startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER,
    connectionId INTEGER PRIMARY KEY, name INTEGER);
CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER,
    globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER);
CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockDim INTEGER,
    mixBlockDim INTEGER, taskType INTEGER, opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER,
    inputShapes INTEGER, outputFormats INTEGER, outputDataTypes INTEGER, outputShapes INTEGER, attrInfo INTEGER);
"""
PMU_SCHEMA = "CREATE TABLE TASK_PMU_INFO (globalTaskId INTEGER, name INTEGER, value NUMERIC);"


class _Strings:
    """Numbers for strings, in the order of their first use."""

    def __init__(self) -> None:
        self.numbers: Dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def _counters(row: Dict[str, str]) -> Dict[str, float]:
    """The counters of a row of op_summary under the names that the tables have."""
    values = {}
    for column, cell in row.items():
        if column in model.BASE_COLUMNS or cell == "N/A":
            continue
        name = _TOTALS.get(column, column.replace("(us)", ""))
        values[name] = float(cell) * 1000 if column.endswith("(us)") else float(cell)
    return values


def export(data: Any) -> None:
    """Write the tables for a `Collected`; the file gets its name when it is complete."""
    strings = _Strings()
    tasks: List[Any] = []
    computes: List[Any] = []
    calls: List[Any] = []
    counters: List[Any] = []
    for number, kernel in enumerate(data.kernels):
        row = model.op_summary_row(kernel, "Level1", data.metrics)
        call, launch = model.connection_ids(number)
        tid = (data.pid << 32) | kernel.thread_id
        if data.level != "Level0":
            end = kernel.launch_ns + kernel.launch_duration_ns
            calls.append((kernel.launch_ns, end, ACL, tid, call, strings[kernel.api]))
        end = kernel.launch_ns + kernel.launch_duration_ns // 2
        calls.append((kernel.launch_ns, end, NODE, tid, launch, strings["launch"]))
        kind = "KERNEL_AICORE" if kernel.core in ("AI_CORE", "MIX_AIC") else "KERNEL_AIVEC"
        tasks.append(
            (kernel.start_ns, kernel.end_ns, kernel.device_id, launch, number, data.pid, strings[kind], _NOTHING)
            + (kernel.stream_id, kernel.task_id, model.MODEL_ID)
        )
        texts = [row["Task Type"], row["OP Type"]]
        for side in ("Input", "Output"):
            texts += [row[side + " Formats"], row[side + " Data Types"], row[side + " Shapes"]]
        if data.level == "Level0":
            texts = ["N/A"] * len(texts)
        numbers = [strings[text] for text in [*texts, "N/A"]]
        mix = int(row["Mix Block Dim"])
        computes.append((strings[kernel.name], number, kernel.block_dim, mix, *numbers))
        if data.level != "Level0":
            counters += [(number, strings[name], value) for name, value in _counters(row).items()]
    first, last = (data.kernels[0], data.kernels[-1]) if data.kernels else (None, None)
    span = (first.launch_ns, last.end_ns) if first and last else (0, 0)
    _write(
        os.path.join(data.path, "msprof_%s.db" % time.strftime("%Y%m%d%H%M%S")),
        {
            "NPU_INFO": [(data.device, data.soc)],
            "SESSION_TIME_INFO": [span],
            "RANK_DEVICE_MAP": [(-1, data.device)],
            "META_DATA": [("SCHEMA_VERSION", "1.1.0")],
            "ENUM_API_TYPE": [(NODE, "node"), (ACL, "acl")],
            "STRING_IDS": [(number, text) for text, number in strings.numbers.items()],
            "CANN_API": calls,
            "TASK": tasks,
            "COMPUTE_TASK_INFO": computes,
            **({"TASK_PMU_INFO": counters} if counters else {}),
        },
    )


def _write(path: str, tables: Dict[str, List[Any]]) -> None:
    part = path + ".part"
    connection = sqlite3.connect(part)
    connection.executescript(SCHEMA + (PMU_SCHEMA if "TASK_PMU_INFO" in tables else ""))
    for name, rows in tables.items():
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany("INSERT INTO %s VALUES (%s)" % (name, marks), rows)
    connection.commit()
    connection.close()
    os.rename(part, path)
