"""CANN's timeline of a capture: host calls, kernels, the flows between them, and the overlap analysis."""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from .model import MODEL_ID, Kernel
from .units import microseconds


def busy_and_free(kernels: Sequence[Kernel]) -> Tuple[List[Tuple[int, int]], List[Tuple[int, int]]]:
    """(start_ns, end_ns) of the "Computing" and of the "Free" slices of CANN's overlap analysis, in order.

    Free is what lies between the first and the last kernel of the whole capture and is not Computing (msprof,
    overlap_analysis_processor.cpp); nothing cuts it at the steps. torch_npu counts a slice to the step in which it
    begins, so that the Stage of a step that has ended on the device before it ends on the host reaches to the first
    kernel of the next step.
    """
    busy = [(kernel.start_ns, kernel.end_ns) for kernel in kernels]
    pairs = zip(busy, busy[1:])  # noqa: RUF007 - Python 3.8
    free = [(end, start) for (_, end), (start, _) in pairs if end < start]
    return busy, free


def connection_ids(number: int) -> Tuple[int, int]:
    """The ids of the host's two calls for the kernel of that number: the acl call and the launch in it."""
    return 2 * number, 2 * number + 1


def _metadata(pid: int, name: str, label: str, order: int, threads: Dict[int, str]) -> List[Dict[str, object]]:
    def event(what: str, tid: int, **args: object) -> Dict[str, object]:
        return {"name": what, "pid": pid, "tid": tid, "args": args, "ph": "M"}

    events = [event("process_name", 0, name=name), event("process_labels", 0, labels=label),
              event("process_sort_index", 0, sort_index=order)]  # fmt: skip
    for tid, thread in threads.items():
        events += [event("thread_name", tid, name=thread), event("thread_sort_index", tid, sort_index=tid)]
    return events


def timeline_events(kernels: Sequence[Kernel], pid: int, level: str = "Level1") -> List[Dict[str, object]]:
    """CANN's timeline (`msprof_*.json`): trace events whose `ts` is a decimal string in us, `dur` a number.

    `pid` is the profiled process; CANN derives the ids of its own rows from it. At Level0 the host's calls
    are not there: only the flows tell where a kernel came from.
    """
    first = kernels[0] if kernels else None
    device = first.device_id if first else 0
    cann, hardware, overlap = ((pid << 10) + 32 * row for row in (5, 13, 22))
    made: List[Dict[str, object]] = []
    if level != "Level0":
        threads = {kernel.thread_id: f"Thread {kernel.thread_id}" for kernel in kernels}
        made += _metadata(cann, "CANN", "CPU", 7, threads)
    streams = {kernel.stream_id: f"Stream {kernel.stream_id}" for kernel in kernels}
    made += _metadata(hardware, "Ascend Hardware", f"NPU {device}", 13, streams)
    rows = {0: "Computing", 1: "Communication", 2: "Communication(Not Overlapped)", 3: "Free"}
    made += _metadata(overlap, "Overlap Analysis", f"NPU {device}", 23, rows)
    for number, kernel in enumerate(kernels):
        connections = connection_ids(number)
        launch, start = microseconds(kernel.launch_ns), microseconds(kernel.start_ns)
        here = {"pid": cann, "tid": kernel.thread_id, "ts": launch}
        there = {"pid": hardware, "tid": kernel.stream_id, "ts": start}
        flow = {"name": f"HostToDevice{connections[1]}", "cat": "HostToDevice", "id": str(connections[1])}
        if level != "Level0":
            calls = (("AscendCL", kernel.api, "acl"), ("Node", "launch", "node"))
            for part, (layer, call, short_level) in enumerate(calls):
                args = {"Thread Id": kernel.thread_id, "Mode": "launch", "level": short_level, "id": call,
                        "item_id": kernel.name, "connection_id": connections[part]}  # fmt: skip
                duration = kernel.launch_duration_ns // (part + 1) / 1000
                made.append({"name": f"{layer}@{call}", **here, "dur": duration, "args": args, "ph": "X"})
        task = {"Model Id": MODEL_ID, "Task Type": kernel.core if level != "Level0" else "N/A",
                "Physic Stream Id": kernel.stream_id, "Task Id": kernel.task_id, "Batch Id": 0,
                "Subtask Id": MODEL_ID, "connection_id": connections[1]}  # fmt: skip
        made.append(
            {"name": kernel.name, **there, "dur": kernel.duration_ns / 1000, "args": task, "ph": "X"},
        )
        made.append({**flow, "ph": "s", **here})
        made.append({**flow, "ph": "f", **there, "bp": "e"})
    busy, free = busy_and_free(kernels)
    for name, tid, slices in (("Computing", 0, busy), ("Free", 3, free)):
        for start_ns, end_ns in slices:
            made.append({"name": name, "pid": overlap, "tid": tid, "ts": microseconds(start_ns),
                           "dur": (end_ns - start_ns) / 1000, "ph": "X"})  # fmt: skip
    return made
