"""The arguments of a profiler: what the program asked for, and what is asked for instead."""

from __future__ import annotations

import copy
import inspect
from typing import Any, Callable, Dict, List, Optional

SWITCHES = ("with_stack", "with_modules", "with_flops", "record_shapes", "profile_memory")
SCHEDULE = ("skip_first", "wait", "warmup", "active", "repeat")
LEVELS = (0, 1, 2)


def known(function: Callable[..., Any], wanted: Dict[str, Any]) -> Dict[str, Any]:
    """Of `wanted` what `function` takes: releases differ."""
    parameters = inspect.signature(function).parameters
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return wanted
    return {name: value for name, value in wanted.items() if name in parameters}


def instead(profiler: Any, asked: Dict[str, Any]) -> Dict[str, Any]:
    """What every recording gets, whatever the program says, but for its schedule and handler.

    `profiler` is the module torch_npu.profiler, `asked` the request's own words.
    """
    activity = profiler.ProfilerActivity
    wanted: Dict[str, Any] = {name: bool(asked.get(name)) for name in ("with_stack", "record_shapes", "profile_memory")}
    wanted.update(activities=[activity.CPU, activity.NPU], experimental_config=experimental_config(profiler, asked))
    if not wanted["with_stack"]:
        wanted["with_modules"] = False  # stacks by another name
    return wanted


def experimental_config(profiler: Any, asked: Dict[str, Any]) -> Any:
    """torch_npu's own configuration object, and nothing in it of the program's; Level0 takes no AI-core metrics."""
    level = asked.get("level", 1)
    metrics = asked.get("aic_metrics", "PipeUtilization") if level > 0 else "AiCoreNone"
    wanted = {
        "profiler_level": getattr(profiler.ProfilerLevel, "Level{}".format(level)),
        "aic_metrics": getattr(profiler.AiCMetrics, metrics),
    }
    if hasattr(profiler, "ExportType"):
        export = [getattr(profiler.ExportType, name.capitalize()) for name in asked.get("export") or ["text"]]
        wanted["export_type"] = export[0] if len(export) == 1 else export  # older releases know no list
    return profiler._ExperimentalConfig(**known(profiler._ExperimentalConfig.__init__, wanted))


def schedule(profiler: Any, window: Dict[str, int]) -> Any:
    """torch_npu's schedule of one window."""
    numbers = {name: int(window.get(name, 0)) for name in ("skip_first", "wait", "warmup", "active")}
    return profiler.schedule(**known(profiler.schedule, dict(numbers, repeat=1)))


def once(profiler: Any, of: Any) -> Any:
    """The program's own schedule, for one window and no second: that would be another profile of the same phase.

    torch_npu's is copied, for it writes its numbers into profiler_info.json. Of any other it would write what
    attributes that has, so it gets none; and it may be asked about a step twice: the program's own may count.
    """
    if isinstance(profiler.schedule, type) and isinstance(of, profiler.schedule):
        of = copy.copy(of)
        of.repeat = 1
        return of
    last: Dict[int, Any] = {}
    ended = [False]

    def action(step: int) -> Any:
        if step not in last:
            before = list(last.values())
            ended[0] = ended[0] or any(getattr(one, "name", "") == "RECORD_AND_SAVE" for one in before)
            last.clear()
            last[step] = profiler.ProfilerAction.NONE if ended[0] else of(step)
        return last[step]

    return action


# --- what is said of them ---


def schedule_said(of: Any) -> Optional[Dict[str, int]]:
    """The numbers of a schedule; None where there is none, nothing in it where it does not say."""
    if of is None:
        return None
    return {name: value for name, value in getattr(of, "__dict__", {}).items() if name in SCHEDULE}


def config_said(profiler: Any, config: Any) -> Dict[str, Any]:
    """level, aic_metrics and export of a configuration object; None of what it does not say."""
    level, metrics = getattr(config, "_profiler_level", None), getattr(config, "_aic_metrics", None)
    export = getattr(config, "_export_type", None)
    named = {value: name for name, value in vars(profiler.AiCMetrics).items() if not name.startswith("_")}
    levels = {getattr(profiler.ProfilerLevel, "Level{}".format(number), None): number for number in LEVELS}
    return {
        "level": levels.get(level) if level is not None else None,
        "aic_metrics": named.get(metrics),
        "export": None if export is None else sorted([export] if isinstance(export, str) else map(str, export)),
    }


def activities_said(of: Any) -> Optional[List[str]]:
    return None if of is None else sorted(str(one).rpartition(".")[2] for one in of)


def said(profiler: Any, arguments: Dict[str, Any]) -> Dict[str, Any]:
    """Arguments of a profiler as a receipt has them; what was left to torch_npu is None, or not there."""
    switches = {name: arguments[name] for name in SWITCHES if isinstance(arguments.get(name), bool)}
    return dict(
        config_said(profiler, arguments.get("experimental_config")),
        activities=activities_said(arguments.get("activities")),
        schedule=schedule_said(arguments.get("schedule")),
        **switches,
    )
