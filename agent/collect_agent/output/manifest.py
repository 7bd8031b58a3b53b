"""What a profile says about itself: everything needed to believe it, computed from the run's own events. Pure."""

from __future__ import annotations

import platform
from types import MappingProxyType
from typing import Any, Dict, List, Mapping

from ..events import Event
from ..run.rundir import RunDir

FORMAT = "collect-remote/1"
NONE: Mapping[int, List[Event]] = MappingProxyType({})


def stages(events: List[Event]) -> List[Dict[str, Any]]:
    """Every stage entered, in order, with its duration in seconds; the last one ends at the last event."""
    entered: List[Dict[str, Any]] = []
    for event in events:
        if not entered or entered[-1]["stage"] != event["stage"]:
            if entered:
                entered[-1]["seconds"] = round(event["time"] - entered[-1]["started"], 6)
            entered.append({"stage": event["stage"], "started": event["time"]})
    if entered:
        entered[-1]["seconds"] = round(events[-1]["time"] - entered[-1]["started"], 6)
    return entered


def phases(events: List[Event], others: Mapping[int, List[Event]] = NONE) -> Dict[str, Dict[str, Any]]:
    """Per profile (prefill, decode, both, forward): the steps of warm-up and window, seconds each, in order.

    `warmup_kinds` and `step_kinds` name what each step was; in `both` a window holds prefill and decode steps.
    `others`: the reports of ranks besides the first: their steps stand under `ranks`, and `recompiles` is the most of
    any rank; None where nobody has counted.
    """
    result = _steps(events)
    for rank, told in others.items():
        for window, steps in _steps(told).items():
            if window in result:
                result[window].setdefault("ranks", {})[str(rank)] = steps
                counts = (result[window]["recompiles"], steps["recompiles"])
                result[window]["recompiles"] = None if None in counts else max(counts)
    return result


def _steps(events: List[Event]) -> Dict[str, Dict[str, Any]]:
    result: Dict[str, Dict[str, Any]] = {}
    for event in events:
        if event["stage"] not in ("warmup", "profile") or "seconds" not in event:
            continue
        window = result.setdefault(
            event["window"],
            {"warmup_seconds": [], "warmup_kinds": [], "step_seconds": [], "step_kinds": [], "recompiles": 0},
        )
        prefix = "warmup" if event["stage"] == "warmup" else "step"
        if prefix == "step" and event.get("step") == 1:  # anew, after a recording that was thrown away
            window.update(step_seconds=[], step_kinds=[], recompiles=0)
        window[prefix + "_seconds"].append(event["seconds"])
        window[prefix + "_kinds"].append(event["kind"])
        if prefix == "step":
            counts = (window["recompiles"], event.get("recompiles", 0))
            window["recompiles"] = None if None in counts else sum(counts)
    return result


def reported(events: List[Event], stage: str, key: str) -> Any:
    """The last value of `key` that the worker, or its rank 0, reported in `stage`, or None."""
    told = (event for event in reversed(events) if event["stage"] == stage and "rank" not in event)
    return next((event[key] for event in told if key in event), None)


def proof(events: List[Event], seen: List[Dict[str, Any]]) -> Dict[str, Any]:
    """What the program said of its device, and what was `seen` on it; `ranks`: what rank 1, 2, ... said of theirs."""
    told = [event for event in events if event["stage"] == "import" and "device" in event]
    others = sorted((dict(event["device"], rank=event["rank"]) for event in told if "rank" in event), key=_rank)
    return dict(reported(events, "import", "device") or {}, presence=seen, **({"ranks": others} if others else {}))


def _rank(entry: Dict[str, Any]) -> int:
    return int(entry["rank"])


def container(plan: Dict[str, Any]) -> Any:
    """The container of the run, None on the host itself: its runtime, name, short id, image and user."""
    known = plan["container"]
    return known and {key: known[key] for key in ("runtime", "name", "id", "image", "user")}


def document(
    run: RunDir,
    plan: Dict[str, Any],
    events: List[Event],
    proof: Dict[str, Any],
    window_phases: Dict[str, Dict[str, Any]],
    verdict: Dict[str, Any],
    parsed: Dict[str, Dict[str, Any]],
    files: List[Dict[str, Any]],
) -> Dict[str, Any]:
    """The manifest.json of the archive. `parsed`: see `harvest.Harvest`.

    `files`: path, size (bytes), sha256 of every other member.
    """
    versions = dict(
        plan["versions"], python=platform.python_version(), **(reported(events, "import", "versions") or {})
    )
    return {
        "format": FORMAT,
        "run_id": run.id,
        "host": plan["host"],
        "model": plan["model"],
        "route": plan["route"],
        "notes": plan["notes"],
        "request": plan["request"],
        "expected": plan["expected"],
        "devices": reported(events, "lease", "devices"),
        "visible_devices": plan["visible_devices"],
        "container": container(plan),
        "proof": proof,
        "versions": versions,
        "phases": window_phases,
        "stages": stages(events),
        "verdict": verdict["verdict"],
        "checks": verdict["checks"],
        "profiles": [dict(p, parsed=parsed.get(p["directory"].rpartition("/")[2])) for p in verdict["profiles"]],
        "files": files,
    }
