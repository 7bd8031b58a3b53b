"""From raw data to what the files show: kernels with their launches, steps with their ranges, step times.

Pure functions over plain data, all times in integer ns since the epoch, so that sums and unions are exact.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .._device import Call, Signature, load_kernels
from ._raw import Raw

STEP = "ProfilerStep#"
STREAM = 2


class Phases(NamedTuple):
    """How an operator's time on the host divides: put into the task queue, taken out there, launched."""

    enqueue: Tuple[int, int]
    dequeue: Tuple[int, int]
    launch: Tuple[int, int]  # start and duration of the aclnn call, inside the dequeue


class Step(NamedTuple):
    """One ``ProfilerStep#N``: its range on the host and the range that its kernels cover on the device."""

    number: str
    host_start_ns: int
    host_end_ns: int
    device_start_ns: int
    device_end_ns: int


class StepTime(NamedTuple):
    """A row of step_trace_time, in ns. There is one device and no communication here."""

    device: int
    step: Optional[str]
    computing: int
    free: int
    stage: int
    preparing: int


def phases(call: Call) -> Phases:
    span = call.end_ns - call.start_ns
    eighth = span // 8
    start = call.start_ns
    return Phases(
        (start + eighth, start + 2 * eighth),
        (start + 3 * eighth, start + 7 * eighth),
        (start + 4 * eighth, 2 * eighth),
    )


def kernels_of(calls: Sequence[Call], pid: int) -> List[Any]:
    """One ``kernels.Kernel`` a call, in the order of the stream, at the times that were recorded."""
    model = load_kernels()
    out: List[Any] = []
    patterns: Dict[Signature, Any] = {}
    for task, call in enumerate(sorted(calls, key=lambda c: c.kernel_start_ns), 1):
        pattern = patterns.get(call.signature)
        if pattern is None:
            inputs, outputs = (tuple(model.Tensor(*t) for t in side) for side in call.signature[1:])
            operator = model.Operator(call.signature.name, 0, None, inputs, outputs, dequeue_thread(pid))
            pattern = patterns[call.signature] = model.timeline([operator], call.device, STREAM)[0]
        launch, took = phases(call).launch
        out.append(
            pattern._replace(
                launch_ns=launch,
                launch_duration_ns=took,
                start_ns=call.kernel_start_ns,
                duration_ns=call.kernel_ns,
                wait_ns=call.kernel_start_ns - out[-1].end_ns if out else 0,
                device_id=call.device,
                task_id=task,
            )
        )
    return out


def dequeue_thread(pid: int) -> int:
    """The id of the thread that works off the task queue."""
    return pid + 7


def steps_of(raw: Raw) -> List[Step]:
    """The steps that launched something; none without CPU activity or without device data."""
    if not (raw.host and raw.device):
        return []
    marks = sorted((m for m in raw.marks if m.name.startswith(STEP)), key=lambda m: m.start_ns)
    steps = []
    for mark in marks:
        inside = [c for c in raw.tasks if mark.start_ns <= c.start_ns <= mark.end_ns]
        if inside:
            first = min(c.kernel_start_ns for c in inside)
            last = max(c.kernel_start_ns + c.kernel_ns for c in inside)
            number = mark.name[len(STEP) :]
            steps.append(Step(number, mark.start_ns, mark.end_ns, first, max(last, mark.end_ns)))
    return steps


def step_of(start_ns: int, steps: Sequence[Step]) -> Optional[str]:
    """The first step whose range on the device holds a kernel that starts then."""
    for step in steps:
        if step.device_start_ns <= start_ns <= step.device_end_ns:
            return step.number
    return None


def step_times(kernels: Sequence[Any], steps: Sequence[Step], raw: Raw, from_timeline: bool) -> List[StepTime]:
    """One row a step; without steps one nameless row for the whole capture.

    torch_npu has two sources. The CSV file comes `from_timeline` (_trace_step_time_parser.py): every slice of CANN's
    overlap analysis counts to the step in whose range on the device it begins, and so does the idle time behind a
    step's last kernel when the host ended the step after the device. Free and Stage then reach to the next kernel.
    The database comes from the kernels (_trace_step_time_db_parser.py) and counts no idle time but that between two
    kernels of one step.
    """
    if not kernels:
        return []
    overlap = load_kernels().busy_and_free
    begin, end = kernels[0].start_ns, kernels[-1].end_ns
    on_host = [mark.start_ns for mark in raw.marks] + [call.start_ns for call in raw.calls] if raw.host else []
    ranges = [(step.number, step.host_start_ns, step.device_start_ns, step.device_end_ns) for step in steps]
    gaps = overlap(kernels)[1]
    rows = []
    for number, host, start, stop in ranges or [(None, min(on_host, default=begin), begin, end)]:
        # step_of, for kernel_details, has the range's end within it; both parsers of step times have not.
        inside = [kernel for kernel in kernels if start <= kernel.start_ns < stop]
        busy, idle = overlap(inside)
        if from_timeline:
            idle = [gap for gap in gaps if start <= gap[0] < stop]
        first, last = busy[0][0], max(right for _, right in busy + idle)
        # One stream: nothing overlaps.
        computing, free = (sum(right - left for left, right in slices) for slices in (busy, idle))
        rows.append(StepTime(inside[0].device_id, number, computing, free, last - first, first - host))
    return rows
