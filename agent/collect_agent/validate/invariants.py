"""Checks across files: sums that must agree whatever the columns. They catch cut, mixed and swapped files.

They hold on all complete real exports seen (910A and 910B, CANN 8.0 and 8.3, Level0 to Level2) to 0.2 us,
in exact arithmetic. torch_npu itself adds in floats of a microsecond epoch, which resolve to 0.25 us.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from .aggregates import LAST_DIGIT, StepTime
from .facts import Facts
from .kernels import StepKernels
from .registry import Result, absent, check, failed, passed, unproven
from .tables import PS_PER_US, microseconds

REMEDY = "the files do not belong together, or one of them was cut: copy them again, or parse the raw data again"
SOURCE = "measured on nine real rank directories; step_trace_time is made from CANN's overlap analysis"
SLACK_BEYOND_WINDOW_US = 5_000_000.0
Kind = Tuple[str, str, str]
CHANCE = 0.01  # of the kernels of another run; times are to the nanosecond


def tolerance(value: int) -> int:
    """Picoseconds by which two sums of `value` may differ: 1 us, or 1e-4 of long ones."""
    return max(PS_PER_US, abs(value) // 10_000)


def _match(facts: Facts) -> List[Tuple[StepTime, Optional[StepKernels]]]:
    """Rows of step_trace_time.csv with their kernels, or None where no kernel belongs to the row.

    A row without step stands for the whole capture. Rows that name no device among several are left out.
    """
    if facts.kernels is None or not facts.kernels.rows or facts.step_times is None:
        return []
    with_device = "Device_id" in facts.kernels.columns
    by_step: Dict[str, List[Tuple[str, StepKernels]]] = {}
    for (device, step), kernels in facts.kernels.steps.items():
        by_step.setdefault(step, []).append((device, kernels))
    pairs: List[Tuple[StepTime, Optional[StepKernels]]] = []
    for row in facts.step_times:
        # -1: the timeline's label names no device (torch_npu _trace_step_time_parser.py).
        known = with_device and row.device not in ("", "-1")
        found = [kernels for device, kernels in by_step.get(row.step, ()) if not known or device == row.device]
        if len(found) < 2:
            pairs.append((row, found[0] if found else None))
    return pairs


def _compare(
    facts: Facts,
    what: str,
    table: Callable[[StepTime], int],
    measured: Callable[[StepTime, StepKernels], Sequence[Optional[int]]],
) -> Result:
    """Hold one time of every row against the values that its kernels allow."""
    pairs = _match(facts)
    if not pairs:
        return absent("no step is in both kernel_details.csv and step_trace_time.csv")
    worst = 0
    for row, kernels in pairs:
        step = "step %s%s" % (row.step or "(all)", " of device %s" % row.device if row.device else "")
        if kernels is None:
            return failed("%s is in step_trace_time.csv and has no kernels in kernel_details.csv" % step)
        value = table(row)
        allowed = [time for time in measured(row, kernels) if time is not None]
        if not allowed:
            return absent("the rows of %s are not in order of time" % step)
        nearest = min(allowed, key=lambda time: abs(value - time))
        deviation = abs(value - nearest)
        worst = max(worst, deviation)
        if deviation > tolerance(value):
            return failed(
                "%s: %s is %.3f us, the kernels say %.3f us" % (step, what, microseconds(value), microseconds(nearest)),
                step=row.step,
                deviation_us=microseconds(deviation),
            )
    return passed("%s agrees in %d steps" % (what, len(pairs)), steps=len(pairs), deviation_us=microseconds(worst))


@check(
    "computing-union",
    catches="rows lost from kernel_details.csv, or step_trace_time.csv of another run or rank",
    source="Computing is the union of all non-communication kernel intervals; " + SOURCE,
    remedy=REMEDY,
)
def computing(facts: Facts) -> Result:
    return _compare(facts, "Computing", lambda row: row.computing, lambda _, step: [step.computing.length()])


@check(
    "communication-union",
    catches="lost or foreign communication rows",
    source="Communication is the union of the hcom_* intervals; " + SOURCE,
    remedy=REMEDY,
)
def communication(facts: Facts) -> Result:
    return _compare(
        facts, "Communication", lambda row: row.communication, lambda _, step: [step.communicating.length()]
    )


@check(
    "stage-span",
    catches="kernels lost at the head or the tail of a step",
    source="Stage + Bubble is the last kernel end less the first kernel start of the step, on captures of one step; "
    "_trace_step_time_parser.py for more; " + SOURCE,
    remedy=REMEDY,
)
def stage(facts: Facts) -> Result:
    """With several steps the real parser counts the idle time after a step's last kernel into that step when the host
    ended it later (as after a synchronisation): CANN's Free slice fills the gap to the next kernel of the device.
    """
    steps = facts.kernels.steps if facts.kernels else {}
    firsts: Dict[str, List[int]] = {}
    for (device, _), kernels in sorted(steps.items(), key=lambda item: item[1].first):
        firsts.setdefault(device, []).append(kernels.first)
    everywhere = sorted(kernels.first for kernels in steps.values())

    def spans(row: StepTime, step: StepKernels) -> List[int]:
        starts = firsts.get(row.device, everywhere)
        following = bisect_right(starts, step.first)
        return [end - step.first for end in [step.last, *starts[following : following + 1]]]

    return _compare(facts, "Stage + Bubble", lambda row: row.stage + row.bubble, spans)


@check(
    "step-sum",
    catches="a step_trace_time.csv that was edited or mixed",
    source="Computing + Communication(Not Overlapped) + Free is Stage + Bubble; " + SOURCE,
    remedy=REMEDY,
)
def step_sum(facts: Facts) -> Result:
    if not facts.step_times:
        return absent("there is no step_trace_time.csv, or it has no rows")
    for row in facts.step_times:
        parts, whole = row.computing + row.not_overlapped + row.free, row.stage + row.bubble
        if abs(parts - whole) > tolerance(whole):
            return failed(
                "step %s: its parts sum to %.3f us, Stage + Bubble is %.3f us"
                % (row.step or "(all)", microseconds(parts), microseconds(whole)),
                step=row.step,
                deviation_us=microseconds(abs(parts - whole)),
            )
    return passed("the parts of all %d rows sum up" % len(facts.step_times), rows=len(facts.step_times))


@check(
    "op-statistic",
    catches="kernel rows lost, doubled or changed anywhere, those without a step included",
    source="op_statistic.csv counts and sums the non-communication rows of kernel_details.csv by type and core; "
    + SOURCE,
    remedy=REMEDY,
)
def op_statistic(facts: Facts) -> Result:
    statistic, kernels = facts.op_statistic, facts.kernels
    if statistic is None or kernels is None or not kernels.rows:
        return absent("op_statistic.csv or kernel_details.csv is not there, or could not be read")
    figures: Dict[str, Any] = {
        "count": statistic.kernels,
        "kernels": kernels.compute_rows,
        "total_us": microseconds(statistic.total),
        "kernels_us": microseconds(kernels.compute_duration),
    }
    if statistic.kernels != kernels.compute_rows:
        return failed(
            "op_statistic.csv counts %d kernels, kernel_details.csv has %d" % (statistic.kernels, kernels.compute_rows),
            **figures,
        )
    with_device = not any("" in {device for device, _, _ in types} for types in (statistic.types, kernels.types))
    counted, measured = _by_type(statistic.types, with_device), _by_type(kernels.types, with_device)
    for device, kind, core in sorted(set(counted) | set(measured)):
        count, time = counted.get((device, kind, core), (0, 0))
        rows, duration = measured.get((device, kind, core), (0, 0))
        if count != rows:
            where = " of device %s" % device if with_device else ""
            what = "op_statistic.csv counts %d kernels of %s on %s%s, kernel_details.csv has %d"
            return failed(what % (count, kind, core, where, rows), **figures)
        if abs(time - duration) > 10 * LAST_DIGIT + LAST_DIGIT * count:  # real exports differ by 0.007 us at most
            what = "op_statistic.csv sums %s on %s to %.3f us, the kernels to %.3f us"
            return failed(what % (kind, core, microseconds(time), microseconds(duration)), **figures)
    if statistic.contradiction:
        return failed("op_statistic.csv contradicts itself at %s" % statistic.contradiction, **figures)
    hundred = 100 * PS_PER_US
    if statistic.total and abs(statistic.ratio - hundred) > max(10_000, LAST_DIGIT * len(statistic.types)):
        return failed("the ratios of op_statistic.csv sum to %.3f %%" % (statistic.ratio / PS_PER_US), **figures)
    what = "%d kernels of %d types, counted and summed alike"
    return passed(what % (statistic.kernels, len(statistic.types)), **figures)


def _by_type(types: Mapping[Kind, Sequence[int]], with_device: bool) -> Dict[Kind, Tuple[int, int]]:
    """(count, time) by device, type and core; over all devices when only one of two tables names them."""
    sums: Dict[Kind, Tuple[int, int]] = {}
    for (device, kind, core), (count, time) in types.items():
        key = (device if with_device else "", kind, core)
        before = sums.get(key, (0, 0))
        sums[key] = before[0] + count, before[1] + time
    return sums


@check(
    "communication-json",
    catches="a communication.json of another rank or run",
    source="its operators start when the communication rows of kernel_details.csv do; on eight real rank directories, "
    "2023 to CANN 8.3",
    remedy=REMEDY,
)
def communication_json(facts: Facts) -> Result:
    wanted = facts.kernels.collectives if facts.kernels is not None else set()
    if not facts.collectives or not wanted:
        return absent("communication.json or communication rows with a step are not there")
    found = sum(not facts.collectives.isdisjoint((start - 1, start, start + 1)) for start in wanted)
    figures: Dict[str, Any] = {"looked_for": len(wanted), "found": found}
    if not found:
        return failed("no communication row of kernel_details.csv is in communication.json", **figures)
    # Operators of a new kind are left out of it, with a warning (torch_npu _communication_parser.py).
    return passed("%d of %d communication rows are in communication.json" % (found, len(wanted)), **figures)


@check(
    "same-kernels",
    catches="a trace of another rank or run beside the tables, or one from which events were cut",
    source="the start times of kernels are those of slices in trace_view.json, digit for digit: both come from msprof; "
    "so it is for all compute kernels of ten real rank directories, untrimmed",
    remedy=REMEDY,
)
def same_kernels(facts: Facts) -> Result:
    if facts.kernels is None or facts.trace is None:
        return absent("kernel_details.csv or trace_view.json is not there, or could not be read")
    found, wanted = facts.kernels.starts.found_in(facts.trace.starts)
    if not wanted or not facts.trace.starts:
        return absent("the times of kernels and slices are not written alike")
    figures: Dict[str, Any] = {"looked_for": wanted, "found": found}
    if found < CHANCE * wanted:
        return failed("no kernel of kernel_details.csv is in trace_view.json", **figures)
    if found < wanted:
        what = "only %d of %d kernels are in trace_view.json: it was shortened, or one of the two changed"
        return unproven(what % (found, wanted), **figures)
    return passed("the kernels looked for are all in trace_view.json", **figures)


@check(
    "one-run",
    catches="files of different runs in one directory",
    source="collectionTimeEnd and the monotonic clocks of profiler_info*.json bound every time in the other files",
    remedy=REMEDY,
)
def one_run(facts: Facts) -> Result:
    spans: Dict[str, Tuple[float, float]] = {}
    if facts.kernels is not None and facts.kernels.first is not None:
        spans["kernel_details.csv"] = microseconds(facts.kernels.first), microseconds(facts.kernels.last)
    if facts.trace is not None and facts.trace.device_span:
        spans["trace_view.json"] = facts.trace.device_span
    if facts.trace is not None and facts.trace.steps:
        begin = min(start for start, _ in facts.trace.steps.values())
        spans["the steps of trace_view.json"] = begin, max(start + dur for start, dur in facts.trace.steps.values())
    for name, database in facts.databases.items():
        if database.span:
            spans[name] = database.span[0] / 1e3, database.span[1] / 1e3
    window = _window(facts)
    if len(spans) + (window is not None) < 2:
        return absent("no two files with times to compare")
    if window is None:
        names = list(spans)
        window, spans = spans[names[0]], {name: spans[name] for name in names[1:]}
    for name, (first, last) in spans.items():
        if first < window[0] - SLACK_BEYOND_WINDOW_US or last > window[1] + SLACK_BEYOND_WINDOW_US:
            return failed(
                "%s covers %.6f to %.6f s, the profiler was on from %.6f to %.6f s"
                % (name, first / 1e6, last / 1e6, window[0] / 1e6, window[1] / 1e6)
            )
    return passed("%s lie in one window" % ", ".join(spans), window_s=round((window[1] - window[0]) / 1e6, 6))


def _window(facts: Facts) -> Optional[Tuple[float, float]]:
    """When the profiler was on, in microseconds of the epoch; from the beginning of time where no start is
    known.
    """
    if facts.info is None or facts.info.ended is None:
        return None
    end, length = facts.info.ended, facts.info.window_ns
    return (end - length) / 1e3 if length is not None else 0.0, end / 1e3
