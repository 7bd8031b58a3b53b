"""The text deliverables: CSV files and trace_view.json.

Times in CSV files are decimal strings in us (op times with a trailing tab, as the real ones have against rounding by
spreadsheets); ``ts`` in the trace is a decimal string in us, ``dur`` a number.
"""

from __future__ import annotations

import csv
import io
import json
import os
from typing import Any, Dict, Iterable, List, Sequence

from .._device import Call, load_kernels
from .._faults import fault
from . import _paths, _timeline
from ._raw import Raw
from ._timeline import Step, StepTime

OPERATOR_COLUMNS = (
    "Name", "Input Shapes", "Call Stack", "Host Self Duration(us)", "Host Total Duration(us)",
    "Device Self Duration(us)", "Device Total Duration(us)", "Device Self Duration With AICore(us)",
    "Device Total Duration With AICore(us)",
)  # fmt: skip
STEP_COLUMNS = (
    "Device_id", "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage",
    "Bubble", "Communication(Not Overlapped and Exclude Receive)", "Preparing",
)  # fmt: skip
OPERATOR_MEMORY_COLUMNS = (
    "Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)", "Active Release Time(us)", "Duration(us)",
    "Active Duration(us)", "Allocation Total Allocated(MB)", "Allocation Total Reserved(MB)",
    "Allocation Total Active(MB)", "Release Total Allocated(MB)", "Release Total Reserved(MB)",
    "Release Total Active(MB)", "Stream Ptr", "Device Type",
)  # fmt: skip
MEMORY_RECORD_COLUMNS = (
    "Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Total Active(MB)", "Stream Ptr",
    "Device Type",
)  # fmt: skip
MODULE_MEMORY_COLUMNS = ("Device_id", "Component", "Timestamp(us)", "Total Reserved(MB)", "Device")
_RENAMED = {
    "Op Name": "Name", "OP Type": "Type", "Task Type": "Accelerator Core", "Task Start Time(us)": "Start Time(us)",
    "Task Duration(us)": "Duration(us)", "Task Wait Time(us)": "Wait Time(us)",
}  # fmt: skip
_LEVEL0_COLUMNS = (
    "Device_id", "Op Name", "OP Type", "Task Type", "Task Start Time(us)", "Task Duration(us)", "Task Wait Time(us)",
    "Block Num",
)  # fmt: skip
_STREAM_POINTER = 187650984


def us(ns: int) -> str:
    return str(load_kernels().microseconds(ns))


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    writer.writerows(rows)
    return buffer.getvalue()


def write_csv(output: str, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """As the real one: no rows, no file."""
    if rows:
        _paths.write(os.path.join(output, name), _csv(columns, rows))


def op_summary(kernels: Sequence[Any], level: str, metrics: str) -> List[Dict[str, str]]:
    """CANN's rows: at Level0 and without counters fewer columns."""
    model = load_kernels()
    if fault("no_pmu") is not None:
        metrics = model.NO_METRICS
    rows = [model.op_summary_row(kernel, level, metrics) for kernel in kernels]
    for row in rows:
        row.setdefault("Block Num", row.get("Block Dim", ""))
    return rows


def kernel_details(output: str, kernels: Sequence[Any], steps: Sequence[Step], level: str, metrics: str) -> None:
    model = load_kernels()
    columns = (
        _LEVEL0_COLUMNS
        if level == "Level0"
        else model.op_summary_columns(level, model.NO_METRICS if fault("no_pmu") is not None else metrics)
    )
    rows = []
    for kernel, cells in zip(kernels, op_summary(kernels, level, metrics)):
        row = [cells[name] for name in columns]
        rows.append([_timeline.step_of(kernel.start_ns, steps)] + row if steps else row)
    header = [_RENAMED.get(name, name) for name in columns]
    header = ["Step Id"] + header if steps else header
    if fault("short_write") is not None and rows:
        path = os.path.join(output, "kernel_details.csv")
        text = _csv(header, rows)
        _paths.write(path, text[: len(text) * 2 // 3])
        raise RuntimeError("Can't create file: {}".format(path))
    write_csv(output, "kernel_details.csv", header, rows)


def statistics(output: str, kernels: Sequence[Any]) -> None:
    model = load_kernels()
    for name, columns, rows in (
        ("op_statistic.csv", model.OP_STATISTIC_COLUMNS, model.op_statistic_rows(kernels)),
        ("api_statistic.csv", model.API_STATISTIC_COLUMNS, model.api_statistic_rows(kernels)),
    ):
        write_csv(output, name, columns, [[row[c] for c in columns] for row in rows])


def step_trace_time(output: str, times: Sequence[StepTime]) -> None:
    rows = []
    for time in times:
        busy, free, stage, preparing = map(us, (time.computing, time.free, time.stage, time.preparing))
        rows.append([time.device, time.step, busy, "0", "0", "0", free, stage, "0", "0", preparing])
    write_csv(output, "step_trace_time.csv", STEP_COLUMNS, rows)


def _dims(call: Call) -> str:
    return ";\r\n".join(",".join(map(str, shape)) for shape, _ in call.signature.inputs)


def _stack(call: Call) -> str:
    return ";\r\n".join(call.stack)


def operator_details(output: str, raw: Raw, shapes: bool) -> None:
    model = load_kernels()
    rows: List[List[Any]] = []
    seen = {task.start_ns for task in raw.tasks}
    for call in raw.calls:
        host = us(call.end_ns - call.start_ns)
        device = us(call.kernel_ns) if call.start_ns in seen else "0"
        core = model.kind_of(call.signature.name).core == "AI_CORE"
        on_core = device if core else "0"
        shape = _dims(call) if shapes else ""
        rows.append([call.signature.name, shape, _stack(call), host, host, device, device, on_core, on_core])
    for mark in raw.marks:
        if not mark.name.startswith(_timeline.STEP):
            host = us(mark.end_ns - mark.start_ns)
            rows.append([mark.name, "", "", host, host, "0", "0", "0", "0"])
    write_csv(output, "operator_details.csv", OPERATOR_COLUMNS, rows)


def memory(output: str, raw: Raw) -> None:
    """operator_memory.csv (pairs of allocation and release), memory_record.csv and npu_module_mem.csv."""

    def mb(nbytes: int) -> float:
        return nbytes / 2**20

    rows: List[List[Any]] = []
    opened: Dict[int, List[Any]] = {}
    for event in raw.memory:
        held = [mb(event.allocated), mb(event.reserved), mb(event.allocated)]
        if event.nbytes > 0:
            row = [event.name or "N/A", event.nbytes / 1024, us(event.time_ns) + "\t", "", "", "", ""]
            row += held + ["", "", "", _STREAM_POINTER, "NPU:{}".format(event.device)]
            opened[event.address] = [row, event.time_ns]
            rows.append(row)
        elif event.address in opened:
            row, began = opened.pop(event.address)
            released, lasted = us(event.time_ns) + "\t", us(event.time_ns - began) + "\t"
            row[3:7] = [released, released, lasted, lasted]
            row[10:13] = held
    write_csv(output, "operator_memory.csv", OPERATOR_MEMORY_COLUMNS, rows)
    records: List[List[Any]] = []
    for event in raw.memory:
        held = [mb(event.allocated), mb(event.reserved), mb(event.allocated)]
        for component in ("PTA", "PTA+GE"):
            where = "NPU:{}".format(event.device)
            records.append([component, us(event.time_ns) + "\t"] + held + [_STREAM_POINTER, where])
    write_csv(output, "memory_record.csv", MEMORY_RECORD_COLUMNS, records)
    if raw.memory and raw.device:
        modules = ("SLOG", "RUNTIME", "HCCL", "APP")
        first = raw.memory[0]
        rows = [
            [
                first.device,
                name,
                us(first.time_ns) + "\t",
                "0.0" if name != "APP" else mb(first.reserved),
                "NPU:{}".format(first.device),
            ]
            for name in modules
        ]
        write_csv(output, "npu_module_mem.csv", MODULE_MEMORY_COLUMNS, rows)


# --- trace_view.json ---


def host_events(raw: Raw, shapes: bool) -> List[Dict[str, Any]]:
    """The framework's part: operators, steps, the task queue and the flows between its two ends."""
    events: List[Dict[str, Any]] = []
    pid, queue = raw.pid, _timeline.dequeue_thread(raw.pid)

    def slice_(name: str, tid: int, start: int, end: int, category: str, args: Dict[str, Any]) -> None:
        events.append(
            {
                "ph": "X",
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": us(start),
                "dur": (end - start) / 1000,
                "cat": category,
                "args": args,
            }
        )

    def flow(ph: str, number: int, tid: int, at: int) -> None:
        events.append(
            {
                "ph": ph,
                "bp": "e",
                "name": "enqueue_to_dequeue",
                "id": number,
                "pid": pid,
                "tid": tid,
                "ts": us(at),
                "cat": "async_task_queue",
            }
        )

    for mark in raw.marks:
        args = {"Sequence number": -1, "Fwd thread id": 0}
        slice_(mark.name, mark.thread_id, mark.start_ns, mark.end_ns, "cpu_op", args)
    for number, call in enumerate(raw.calls, 1):
        args = {"Sequence number": -1, "Fwd thread id": 0}
        if shapes and call.signature.inputs:
            args["Input Dims"] = _dims(call)
            args["Input type"] = ";\r\n".join("c10::" + dtype for _, dtype in call.signature.inputs)
        if call.stack:
            args["Call stack"] = _stack(call)
        slice_(call.signature.name, call.thread_id, call.start_ns, call.end_ns, "cpu_op", args)
        if raw.device:
            (queued, queued_end), (taken, taken_end), _ = _timeline.phases(call)
            slice_("Enqueue", call.thread_id, queued, queued_end, "enqueue", {"correlation_id": number})
            flow("s", number, call.thread_id, queued)
            name = "Dequeue@" + load_kernels().kind_of(call.signature.name).api
            slice_(name, queue, taken, taken_end, "dequeue", {"correlation_id": number})
            flow("f", number, queue, taken)
    threads = sorted({event["tid"] for event in events})
    about: List[Any] = [("process_name", 0, {"name": "Python"}), ("process_labels", 0, {"labels": "CPU"}),
                        ("process_sort_index", 0, {"sort_index": 0})]  # fmt: skip
    for tid in threads:
        about.append(("thread_name", tid, {"name": "Thread {}".format(tid)}))
        about.append(("thread_sort_index", tid, {"sort_index": max(threads) + 1 if tid == queue else tid}))
    events += [{"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args} for name, tid, args in about]
    return events


def device_events(raw: Raw, kernels: Sequence[Any], level: str) -> List[Dict[str, Any]]:
    """CANN's part, and the flows from the framework's operators to the kernels."""
    events = load_kernels().timeline_events(kernels, raw.pid, level)
    if not raw.host:
        return events  # type: ignore[no-any-return]
    begun = {call.kernel_start_ns: call for call in raw.calls}
    slices = {e["ts"]: e for e in events if e["ph"] == "X" and "Task Id" in e.get("args", ())}
    for kernel in kernels:
        call, there = begun[kernel.start_ns], slices[us(kernel.start_ns)]
        flow = {"bp": "e", "name": "torch_to_npu", "id": kernel.start_ns, "cat": "async_npu"}
        start = {"pid": raw.pid, "tid": call.thread_id, "ts": us(call.start_ns)}
        end = {"pid": there["pid"], "tid": there["tid"], "ts": there["ts"]}
        events += [dict(flow, ph="s", **start), dict(flow, ph="f", **end)]
    return events  # type: ignore[no-any-return]


def begin_trace(path: str, events: List[Dict[str, Any]]) -> None:
    """The first stage: the framework's part, without the closing bracket."""
    if events:
        _paths.write(path, json.dumps(events, ensure_ascii=False)[:-1])


def finish_trace(path: str, events: List[Dict[str, Any]]) -> None:
    """The second stage: the device's part, appended."""
    with open(path, "a") as file:
        file.write("," + json.dumps(events, ensure_ascii=False)[1:])


def whole_trace(path: str, events: List[Dict[str, Any]]) -> None:
    """Both stages in one, when there is only one of them."""
    _paths.write(path, json.dumps(events, ensure_ascii=False))
