"""Checks that the window holds measured steps only: warm-up went before it, and nothing was compiled in it."""

from __future__ import annotations

from statistics import median
from typing import Any, Dict, List, Tuple

from .facts import Facts
from .kernels import Kernels
from .registry import Result, absent, check, failed, passed, unproven, warned
from .tables import microseconds, whole_number

# Public documentation says that the first profiled step is inflated even when warm: below twice the others is normal.
# On a busy host short steps scatter by more; what is compiled takes longer than both.
OUTLIER_RATIO = 3.0
OUTLIER_EXCESS_S = 0.1
# The rule of the public analysis skill that reads such profiles (MindIE-SD, WARMUP_NOT_STRIPPED).
NOT_STRIPPED_RATIO = 1.5
NOT_STRIPPED_STEPS = 3
LONGEST_COMPILE_US = 50_000.0
COMPILE_SHARE = 0.05
BUSY = "leave the first step out of the evaluation, or collect again when the host is quiet"


def _far_above(step: float, usual: float) -> bool:
    return step > OUTLIER_RATIO * usual and step - usual > OUTLIER_EXCESS_S


def _peers(warmup: Dict[str, Any]) -> Tuple[List[float], List[float]]:
    """Seconds of (later steps, warm-up steps) of the same kind as the first step."""
    seconds, before = warmup["step_seconds"], warmup["warmup_seconds"]
    kinds = warmup["step_kinds"] or [""] * len(seconds)
    before_kinds = warmup["warmup_kinds"] or kinds[:1] * len(before)
    same = [second for second, kind in zip(seconds[1:], kinds[1:]) if kind == kinds[0]]
    return same, [second for second, kind in zip(before, before_kinds) if kind == kinds[0]]


@check(
    "warmup-outside",
    catches="warm-up steps inside the window, recompilation in it",
    source="warm-up outside leaves no trace: only the collector's own step times prove it; else the rules by step id "
    "and duration, and WARMUP_NOT_STRIPPED as the downstream analysis flags it",
    remedy="more warm-up steps outside the profiler (--warmup-steps), with the shapes that are measured",
)
def warmup_outside(facts: Facts) -> Result:
    warmup = facts.asked.warmup_of(facts.phase)
    figures = _by_rules(facts)
    if warmup is None:
        told = ["no record of the warm-up comes with the profile", *_told(figures)]
        return unproven("; ".join(told), **figures)
    recompiles, seconds = warmup["recompiles"], warmup["step_seconds"]
    figures.update(warmup_steps=len(warmup["warmup_seconds"]), recompiles=recompiles)
    if recompiles:
        what = "1 recompile" if recompiles == 1 else "%d recompiles" % recompiles
        return failed("%s inside the window" % what, "fix the shapes, or warm up every shape first", **figures)
    if not warmup["warmup_seconds"]:
        return unproven("no warm-up step ran before the window", **figures)
    if not seconds:
        return unproven("the record of the warm-up has no step times of the window", **figures)
    peers, before = _peers(warmup)
    usual = median(peers or before[-1:] or seconds)
    if _far_above(seconds[0], usual):
        slow = "the first step took %.3f s, others %.3f s" % (seconds[0], usual)
        # A warm-up step as fast as the window shows that nothing was left to warm up: then the host had other work.
        if not before or _far_above(before[-1], usual):
            why = "the last warm-up step was slow too" if before else "no warm-up step was of its kind"
            return unproven("%s, and %s: warm-up may not have been over" % (slow, why), **figures)
        return warned("%s, after a warm-up that was as fast: the host was busy" % slow, BUSY, **figures)
    return passed("%d warm-up steps before the window" % len(warmup["warmup_seconds"]), **figures)


def _told(figures: Dict[str, Any]) -> List[str]:
    """What the data alone say of the warm-up, for and against."""
    told = []
    before = figures.get("steps_before")
    if before is not None:
        told.append("by its number %d steps went before the first recorded one" % before)
    if figures.get("slow_start"):
        told.append("the first step took %(first_step_s).3f s, others %(other_steps_s).3f s" % figures)
    if figures["flags"]:
        told.append("the downstream analysis flags %s" % ", ".join(figures["flags"]))
    return told


def _by_rules(facts: Facts) -> Dict[str, Any]:
    """What the data alone show: how many steps went before, the first step's time on the host against the others', and
    what the downstream analysis makes of the kernels.
    """
    figures: Dict[str, Any] = {"flags": []}
    if facts.step_ids:
        figures["steps_before"] = facts.step_ids[0]
    steps = facts.trace.steps if facts.trace is not None else {}
    if len(steps) >= NOT_STRIPPED_STEPS:
        first, *others = [steps[step][1] / 1e6 for step in sorted(steps)]
        slow_start = _far_above(first, median(others))
        figures.update(first_step_s=round(first, 6), other_steps_s=round(median(others), 6), slow_start=slow_start)
    if facts.kernels is not None:
        figures.update(_downstream(facts.kernels))
    return figures


def _downstream(kernels: Kernels) -> Dict[str, Any]:
    """WARMUP_NOT_STRIPPED as MindIE-SD's analysis finds it: by the sums of kernel time of three steps at least, the
    first against the average, or by names of kernels.
    """
    figures: Dict[str, Any] = {"flags": []}
    sums: Dict[int, int] = {}
    for (_, step), of_step in kernels.steps.items():
        number = whole_number(step)
        if number is not None:
            sums[number] = sums.get(number, 0) + of_step.duration
    if len(sums) >= NOT_STRIPPED_STEPS:
        ordered = [sums[step] for step in sorted(sums)]
        average = sum(ordered) / len(ordered)
        figures["first_step_us"] = microseconds(ordered[0])
        figures["average_step_us"] = round(average / 1e6, 3)
        if (average > 0 and ordered[0] / average > NOT_STRIPPED_RATIO) or kernels.compile_names:
            figures["flags"] = ["WARMUP_NOT_STRIPPED"]
    return figures


@check(
    "compile-in-window",
    catches="operators compiled while the profiler was on",
    source="AscendCL@aclopCompileAndExecute slices by duration: healthy steps hold 177 of 0.1 ms (910A)",
    remedy="more warm-up steps (--warmup-steps), or torch.npu.set_compile_mode(jit_compile=False)",
)
def compile_in_window(facts: Facts) -> Result:
    if facts.trace is None or facts.level0:
        return absent("host calls are recorded at Level1 and above, in trace_view.json")
    trace = facts.trace
    figures: Dict[str, Any] = {
        "compiles": trace.compiles,
        "long_compiles": trace.long_compiles,
        "longest_us": round(trace.longest_compile_us, 3),
    }
    if trace.longest_compile_us > LONGEST_COMPILE_US:
        return failed("one operator took %.1f ms to compile" % (trace.longest_compile_us / 1e3), **figures)
    window = sum(duration for _, duration in trace.steps.values())
    if window and trace.long_compile_us > COMPILE_SHARE * window:
        share = 100 * trace.long_compile_us / window
        return failed("%d long compiles take %.0f %% of the steps" % (trace.long_compiles, share), **figures)
    return passed("%d operator look-ups, none of them a compile of its own" % trace.compiles, **figures)
