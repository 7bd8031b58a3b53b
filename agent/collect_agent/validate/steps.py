"""Checks of the window: the steps that were asked for, all of them, closed, and no others."""

from __future__ import annotations

from statistics import median
from typing import Any, Dict, Iterable, Tuple

from .facts import Facts, whole_numbers
from .messages import MESSAGES
from .registry import Result, absent, check, failed, passed, unproven, warned
from .tables import whole_number

MORE_STEPS = (
    "call step() once after every active step, the last one included: skip_first + wait + warmup + active calls"
)


def _recorded(facts: Facts) -> Dict[str, Tuple[int, ...]]:
    """Step ids by the source that shows them; sources that know no steps are left out."""
    sources: Dict[str, Tuple[int, ...]] = {}
    if facts.step_times is not None and any(row.step for row in facts.step_times):
        sources["step_trace_time.csv"] = _numbers(row.step for row in facts.step_times)
    if facts.kernels is not None and any(step for _, step in facts.kernels.steps):
        sources["kernel_details.csv"] = _numbers(step for _, step in facts.kernels.steps)
    if facts.trace is not None and facts.trace.steps:
        sources["trace_view.json"] = tuple(sorted(facts.trace.steps))
    for name, database in sorted(facts.databases.items()):
        if database.steps:
            sources[name] = tuple(database.steps)
    return sources


def _numbers(steps: Iterable[str]) -> Tuple[int, ...]:
    return tuple(sorted(whole_numbers(steps)))


@check(
    "steps",
    catches="fewer steps than asked for, steps that only some of the files know",
    source="the Step Ids of kernel_details, the rows of step_trace_time and the ProfilerStep slices are one set",
    remedy=MORE_STEPS,
)
def steps(facts: Facts) -> Result:
    wanted, sources = facts.asked.steps_of(facts.phase), _recorded(facts)
    figures: Dict[str, Any] = {
        "wanted": wanted,
        "recorded": {name: list(ids)[:100] for name, ids in sources.items()},
    }
    if not sources:
        if wanted is None:
            return absent("one capture without steps")
        how = "with" if facts.info and facts.info.schedule else "without"
        return unproven("no file tells one step from another (a capture %s schedule)" % how, **figures)
    union = sorted(set().union(*sources.values()))
    for name, ids in sources.items():
        lost = [step for step in union if step not in ids]
        if lost and wanted is not None and len(ids) < wanted:
            return failed(
                "captured %d of %d requested steps: %s lacks step %s" % (len(ids), wanted, name, lost[0]), **figures
            )
        if lost:
            return failed("%s lacks step %d, which another file has" % (name, lost[0]), **figures)
    if wanted is not None and len(union) < wanted:
        return failed("captured %d of %d requested steps (window not closed)" % (len(union), wanted), **figures)
    if wanted is not None and len(union) > wanted:
        return failed("captured %d steps, requested %d" % (len(union), wanted), "clear the directory first", **figures)
    return passed("%d steps, the same in %d files" % (len(union), len(sources)), **figures)


@check(
    "window-closed",
    catches="a profiler stopped before its schedule was through",
    source="profiler_info*.json: first id is skip_first + wait + warmup, as many as active (real exports: 50, 13, 2)",
    remedy=MORE_STEPS,
)
def window_closed(facts: Facts) -> Result:
    schedule = facts.info.schedule if facts.info else {}
    sources = _recorded(facts)
    if not schedule.get("active"):
        return absent("the profile has no schedule")
    if not sources:
        return absent("no file tells one step from another")
    ids = max(sources.values(), key=len)
    active = schedule["active"]
    first = schedule.get("skip_first", 0) + schedule.get("wait", 0) + schedule.get("warmup", 0)
    figures: Dict[str, Any] = {"active": active, "first": ids[0], "first_by_schedule": first, "captured": len(ids)}
    if len(ids) < active:
        return failed("captured %d of %d active steps (window not closed)" % (len(ids), active), **figures)
    if list(ids) != list(range(ids[0], ids[0] + len(ids))):
        return failed("the step ids have gaps: %s" % ", ".join(map(str, ids[:20])), **figures)
    cycle = schedule.get("wait", 0) + schedule.get("warmup", 0) + active
    if ids[0] != first and (schedule.get("repeat") == 1 or (ids[0] - first) % cycle):
        return warned("the first step is %d, the schedule says %d" % (ids[0], first), **figures)
    return passed("all %d active steps from step %d on" % (active, ids[0]), **figures)


@check(
    "kernels-per-step",
    catches="the head of the window lost: device collection takes effect after the first kernels",
    source="Ascend/pytorch issue 167; counts may differ legitimately, so never more than a warning",
    remedy="add a warm-up step to the profiler's schedule, or leave the first step out of the evaluation",
)
def kernels_per_step(facts: Facts) -> Result:
    if facts.kernels is None:
        return absent("no kernel_details.csv to look at")
    counts: Dict[int, int] = {}
    for (_, step), kernels in facts.kernels.steps.items():
        number = whole_number(step)
        if number is not None:
            counts[number] = counts.get(number, 0) + kernels.kernels
    if len(counts) < 2:
        return absent("fewer than two steps to compare")
    ordered = [counts[step] for step in sorted(counts)]
    usual = median(ordered[1:])
    figures: Dict[str, Any] = {"kernels_per_step": ordered[:100]}
    if ordered[0] < usual:
        return warned(
            "step %d has %d kernels, other steps have %g: head of the window lost" % (min(counts), ordered[0], usual),
            **figures,
        )
    return passed("%d to %d kernels in each of %d steps" % (min(ordered), max(ordered), len(ordered)), **figures)


@check(
    "operator-types",
    catches="a graph replayed as one launch, so that single operators do not show",
    source="vllm-ascend issue 1702",
    remedy="profile in eager mode, or read the profile as one of whole graphs",
)
def operator_types(facts: Facts) -> Result:
    if facts.kernels is None or facts.level0 or not facts.kernels.compute_rows:
        return absent("no operator types to look at")
    count, steps = len({kind for _, kind, _ in facts.kernels.types}), len(facts.step_ids)
    if count == 1 and steps > 1:
        return warned("only 1 operator type in %d steps (graph mode?)" % steps, types=count)
    return passed("%d operator types" % count, types=count)


@check(
    "freshness",
    catches="a profile of an earlier run taken for this one's",
    source="collectionTimeEnd of profiler_info*.json and the kernels' times, on the host's clock; else the file's time",
    remedy="look for this run's own directory; the parser may have failed before it wrote one",
)
def freshness(facts: Facts) -> Result:
    if facts.asked.since is None:
        return absent("the start of the run is not known")
    times = {}
    if facts.info and facts.info.ended is not None:
        times[facts.info.name] = facts.info.ended / 1e9
    if facts.kernels is not None and facts.kernels.first is not None:
        times["kernel_details.csv"] = facts.kernels.first / 1e12
    if not times and facts.files:
        times = {path: float(file.mtime + 1) for path, file in facts.files.items()}
    if not times:
        return absent("there is nothing with a time")
    name, oldest = min(times.items(), key=lambda item: item[1])
    if oldest < facts.asked.since:
        return failed("%s is %.1f s older than this run" % (name, facts.asked.since - oldest), oldest=oldest)
    return passed("everything is newer than the run's start", oldest=oldest)


@check(
    "log-messages",
    catches="lines of the profiler's logs that explain a failure",
    source="the table of messages; a line alone never fails a profile, because the same lines follow good parses",
    remedy="see the message",
)
def log_messages(facts: Facts) -> Result:
    serious = [found for found in facts.messages if found.message.severity != "harmless"]
    if serious:
        worst = min(serious, key=lambda found: (found.message.severity != "error", MESSAGES.index(found.message)))
        seen = [{"id": found.message.id, "line": found.line, "count": found.times} for found in serious]
        return warned("%s: %s" % (worst.line, worst.message.meaning), worst.message.remedy, messages=seen)
    logs = sum(path.startswith("logs/") for path in facts.files)
    return passed("nothing to explain in %d logs" % logs, logs=logs) if logs else absent("there are no logs")
