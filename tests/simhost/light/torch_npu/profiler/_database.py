"""The Db export: ``ascend_pytorch_profiler[_<rank>].db`` and ``analysis.db``.

Strings are numbers into STRING_IDS, times are ns since the epoch, counters of time are ns; counters are there from
Level1 on. The tables are the main ones of a real export; those of communication need more than one card.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from typing import Any, Dict, List, Sequence, Tuple

from .. import npu
from .._device import load_kernels
from . import _timeline

NODE, ACL, OPERATOR, QUEUE = 10000, 20000, 50001, 50002
NOTHING = 4294967295
_TOTALS = {"aicore_time(us)": "aic_total_time", "aiv_time(us)": "aiv_total_time"}

Rows = List[Sequence[Any]]
Tables = Dict[str, Rows]

_COLUMNS = {
    "NPU_INFO": "id INTEGER, name TEXT",
    "SESSION_TIME_INFO": "startTimeNs INTEGER, endTimeNs INTEGER",
    "ENUM_API_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "CANN_API": (
        "startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId INTEGER PRIMARY KEY, "
        "name INTEGER"
    ),
    "TASK": (
        "startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER, "
        "globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER"
    ),
    "COMPUTE_TASK_INFO": (
        "name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockDim INTEGER, mixBlockDim INTEGER, taskType INTEGER, "
        "opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER, outputFormats INTEGER, "
        "outputDataTypes INTEGER, outputShapes INTEGER, attrInfo INTEGER"
    ),
    "TASK_PMU_INFO": "globalTaskId INTEGER, name INTEGER, value NUMERIC",
    "PYTORCH_API": (
        "startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER, sequenceNumber INTEGER, "
        "fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, type INTEGER"
    ),
    "CONNECTION_IDS": "id INTEGER, connectionId INTEGER",
    "STEP_TIME": "id INTEGER, startNs INTEGER, endNs INTEGER",
    "MEMORY_RECORD": (
        "component INTEGER, timestamp INTEGER, totalAllocated INTEGER, totalReserved INTEGER, totalActive INTEGER, "
        "streamPtr INTEGER, deviceId INTEGER"
    ),
    "RANK_DEVICE_MAP": "rankId INTEGER, deviceId INTEGER",
    "HOST_INFO": "hostUid TEXT, hostName TEXT",
    "META_DATA": "name TEXT, value TEXT",
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT",
    "StepTraceTime": (
        "deviceId INTEGER, step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, overlapped NUMERIC, "
        "communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC, "
        "communication_not_overlapped_and_exclude_receive NUMERIC, preparing NUMERIC"
    ),
}


class Strings(Dict[str, int]):
    """Numbers for strings in the order of their first use."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]


def cann_tables(job: Any, strings: Strings) -> Tables:
    """Tasks, kernels, counters and host calls of the device."""
    model = load_kernels()
    level, metrics = job.config.level, job.config.metrics
    tasks, computes, calls, counters = [], [], [], []
    for number, kernel in enumerate(job.kernels):
        row = model.op_summary_row(kernel, level, metrics)
        thread = kernel.thread_id | job.raw.pid << 32
        end = kernel.launch_ns + kernel.launch_duration_ns
        if level != "Level0":
            calls.append((kernel.launch_ns, end, ACL, thread, 2 * number, strings[kernel.api]))
        calls.append((kernel.launch_ns, end, NODE, thread, 2 * number + 1, strings["launch"]))
        kind = strings["KERNEL_AICORE" if kernel.core in ("AI_CORE", "MIX_AIC") else "KERNEL_AIVEC"]
        tasks.append(
            (kernel.start_ns, kernel.end_ns, kernel.device_id, 2 * number + 1, number, job.raw.pid, kind, NOTHING)
            + (kernel.stream_id, kernel.task_id, model.MODEL_ID)
        )
        texts = ["Task Type", "OP Type"] + [
            "{} {}".format(side, what) for side in ("Input", "Output") for what in ("Formats", "Data Types", "Shapes")
        ]
        numbers = [strings[row.get(text, "N/A")] for text in texts] + [strings["N/A"]]
        mixed = int(row.get("Mix Block Dim", 0))
        computes.append((strings[kernel.name], number, kernel.block_dim, mixed, *numbers))
        for column, cell in list(row.items())[len(model.BASE_COLUMNS) :]:
            if cell != "N/A":
                name = _TOTALS.get(column, column.replace("(us)", ""))
                scale = 1000 if column.endswith("(us)") else 1
                counters.append((number, strings[name], float(cell) * scale))
    chip = npu.state.visible[npu.state.index] if npu.state.visible else None
    ends = (job.kernels[0].launch_ns, job.kernels[-1].end_ns) if job.kernels else (0, 0)
    tables: Tables = {
        "NPU_INFO": [(chip.logic, chip.soc)] if chip else [],
        "SESSION_TIME_INFO": [ends],
        "ENUM_API_TYPE": [(NODE, "node"), (ACL, "acl"), (OPERATOR, "op"), (QUEUE, "queue")],
        "CANN_API": calls,
        "TASK": tasks,
        "COMPUTE_TASK_INFO": computes,
    }
    if counters:
        tables["TASK_PMU_INFO"] = counters
    return tables


def framework_tables(job: Any, strings: Strings) -> Tables:
    """Operators, the task queue, what connects them with the device, and the steps."""
    apis: Rows = []
    connections: Rows = []
    for number, call in enumerate(job.raw.calls):
        (queued, queued_end), _, _ = _timeline.phases(call)
        thread = call.thread_id | job.raw.pid << 32
        operator = (str(call.start_ns), str(call.end_ns), thread, number, strings[call.signature.name], -1, 0)
        queue = (str(queued), str(queued_end), thread, number, strings["Enqueue"], None, None)
        apis += [(*operator, None, None, None, OPERATOR), (*queue, None, None, None, QUEUE)]
        connections.append((number, 2 * number + 1))
    tables: Tables = {"PYTORCH_API": apis, "CONNECTION_IDS": connections}
    if job.steps:
        tables["STEP_TIME"] = [(int(s.number), s.host_start_ns, s.host_end_ns) for s in job.steps]
    if job.raw.memory:
        tables["MEMORY_RECORD"] = [
            (strings["PTA"], m.time_ns, m.allocated, m.reserved, m.allocated, 0, m.device) for m in job.raw.memory
        ]
    return tables


def write(job: Any) -> None:
    strings = Strings()
    tables: Tables = {}
    if job.raw.device:
        tables.update(cann_tables(job, strings))
    if job.raw.host:
        tables.update(framework_tables(job, strings))
    device = job.kernels[0].device_id if job.kernels else -1
    tables["RANK_DEVICE_MAP"] = [(int(job.config.rank), device)]
    tables["HOST_INFO"] = [("0", socket.gethostname())]
    tables["META_DATA"] = [("SCHEMA_VERSION", "1.1.0"), *_metadata(job.profile)]
    tables["STRING_IDS"] = [(number, text) for text, number in strings.items()]
    rank = "" if job.config.rank == "-1" else "_" + job.config.rank
    _create(os.path.join(job.output, "ascend_pytorch_profiler{}.db".format(rank)), tables)
    if job.raw.device:
        _create(os.path.join(job.output, "analysis.db"), {"StepTraceTime": _step_rows(job)})


def _step_rows(job: Any) -> Rows:
    rows: Rows = []
    for time in job.step_times(from_timeline=False):
        computing, free, stage, preparing = (ns / 1000 for ns in time[2:])
        rows.append((time.device, time.step, computing, 0, 0, 0, free, stage, 0, 0, preparing))
    return rows


def _metadata(profile: str) -> List[Tuple[str, str]]:
    path = os.path.join(profile, "profiler_metadata.json")
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [(key, json.dumps(value)) for key, value in json.load(file).items()]


def _create(path: str, tables: Tables) -> None:
    if os.path.exists(path):
        os.remove(path)
    connection = sqlite3.connect(path)
    try:
        for name, rows in tables.items():
            columns = _COLUMNS[name]
            connection.execute("CREATE TABLE {} ({})".format(name, columns))
            marks = ", ".join("?" * (columns.count(",") + 1))
            connection.executemany("INSERT INTO {} VALUES ({})".format(name, marks), rows)
        connection.commit()
    finally:
        connection.close()
