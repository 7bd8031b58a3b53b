"""What a fleet is compared by: of one published result, its steps, where their time went, and its kernels."""

from __future__ import annotations

import io
import re
import statistics
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from collect_agent.trace.stream import Damage
from collect_agent.validate import aggregates, kernels, tables
from collect_agent.validate.sources import PHASES

from ..errors import ProfileInvalid, one_line
from ..results.member import BRING_AGAIN, members
from ..results.profile import Held, Profile, held
from ..shape import Maybe, Null, misfit

KINDS = (*(kind for kind in PHASES if kind != "both"), "request")  # of steps
SHOWN = 20  # kernels, those with the largest total time
MANY = 5000  # names of kernels that are kept apart; a graph may name every node differently
STEP_TABLE, KERNEL_TABLE = "step_trace_time.csv", "kernel_details.csv"
# Of a collective, what its name has beside its kind: the group's number, which every run draws anew, and a count
# (real exports: hcom_allReduce__586_0_1 and hcom_allReduce__868_0_1 are the same one of two runs).
_INSTANCE = re.compile(r"_\d+(_\d+)*(@.*)?$")
_ANY = re.compile(r"(?s).*")
_STEPS = {"step_seconds": [float], "step_kinds": [str]}
_SHAPE = {
    "devices": [{"label": str, "name": str}],
    "phases": {_ANY: {**_STEPS, "ranks": Maybe({_ANY: _STEPS})}},
    "profiles": [{"chip": Null(str)}],
}


def summarize(profile: Profile) -> dict[str, Any]:
    """{"profiles": [...]}, one for every phase and rank, as docs/sweep.schema.json describes it.

    What the profile does not have, by its level or its form, is null. The archive is read once, in constant memory.
    Raises what `Profile` raises for a result that is damaged.
    """
    manifest = profile.manifest
    where = misfit(manifest, _SHAPE)
    if where is not None:
        raise ProfileInvalid(
            f"the manifest of {profile.archive} is not as it was written: its {one_line(where)}", BRING_AGAIN
        )
    read = _tables(profile)
    return {
        "profiles": [
            {
                "phase": one["phase"],
                "rank": one["rank"] or 0,
                "directory": one["directory"],
                "chip": one["chip"],
                **_device(manifest["devices"], one["rank"] or 0),
                "steps": _steps(manifest["phases"].get(one["phase"], {}), one["rank"] or 0),
                "times": read.get((one["phase"], one["rank"] or 0, STEP_TABLE)),
                "kernels": read.get((one["phase"], one["rank"] or 0, KERNEL_TABLE)),
            }
            for one in manifest["profiles"]
        ]
    }


def versions(profile: Profile) -> dict[str, str | None]:
    """{what took part: its release}; None where there is none, or the host says it in no words."""
    told = profile.manifest["versions"].items()
    return {one_line(name): one_line(release) if isinstance(release, str) else None for name, release in told}


def _device(devices: list[dict[str, Any]], rank: int) -> dict[str, str | None]:
    """Ranks have the devices in their order."""
    mine = devices[rank] if rank < len(devices) else {}
    return {"device": mine.get("label"), "device_name": mine.get("name") or None}


def _steps(window: Mapping[str, Any], rank: int) -> dict[str, dict[str, Any]]:
    """{kind: how long its active steps took}: a window of both has two kinds, which have nothing in common."""
    mine = window.get("ranks", {}).get(str(rank), {}) if rank else window
    took: dict[str, list[float]] = defaultdict(list)
    for kind, seconds in zip(mine.get("step_kinds", ()), mine.get("step_seconds", ()), strict=False):
        if kind in KINDS:
            took[kind].append(seconds * 1e3)
    return {kind: _spread(milliseconds) for kind, milliseconds in took.items()}


def _spread(values: list[float]) -> dict[str, Any]:
    middle = statistics.median(values)
    mad = statistics.median(abs(value - middle) for value in values)
    figures = {"median_ms": middle, "mad_ms": mad, "min_ms": min(values), "max_ms": max(values)}
    return {"count": len(values), **{name: round(value, 6) for name, value in figures.items()}}


def _tables(profile: Profile) -> dict[tuple[str, int, str], dict[str, Any] | None]:
    """What its tables come to, by phase, rank and name of the file."""
    files: dict[str, Held] = {file.path: file for file in held(profile.manifest) if file.name in _READ}
    found = {}
    for path, raw in members(profile.archive, {path: file.sha256 for path, file in files.items()}):
        file = files[path]
        try:
            found[file.phase, file.rank, file.name] = _READ[file.name](raw)
        except Damage as damage:
            raise ProfileInvalid(f"{path} {damage}", BRING_AGAIN) from damage
    return found


def step_times(raw: io.RawIOBase) -> dict[str, Any] | None:
    """step_trace_time.csv, all of its steps together; communication is what no computing hides.

    The three parts are the whole of a step (Stage + Bubble): see docs/checks.md. None for steps that took no time.
    """
    steps = aggregates.step_times(raw)
    parts = {
        "computing": sum(step.computing for step in steps),
        "communication": sum(step.not_overlapped for step in steps),
        "free": sum(step.free for step in steps),
    }
    whole = sum(parts.values())
    if whole <= 0:
        return None
    return {
        **{f"{name}_us": tables.microseconds(ps) for name, ps in parts.items()},
        **{f"{name}_pct": round(100 * ps / whole, 3) for name, ps in parts.items()},
    }


class _Kernels:
    """Calls and picoseconds of one name, and the core that it ran on."""

    __slots__ = ("calls", "core", "total")

    def __init__(self, core: str) -> None:
        self.core, self.calls, self.total = core, 0, 0

    def add(self, calls: int, total: int) -> None:
        self.calls += calls
        self.total += total


def kernel_times(raw: io.RawIOBase) -> dict[str, Any]:
    """kernel_details.csv by name, in one pass: the names with the largest total, and the rest together.

    Names behind the first `MANY` are not kept apart. Damage when a column is missing or a time is no number.
    """
    table = tables.rows(raw)
    at = tables.columns(next(table), ("Name", "Accelerator Core", "Duration(us)"))
    if len(at) < 3:
        raise Damage("lacks one of the columns Name, Accelerator Core, Duration(us)")
    name_at, core_at, duration_at = at.values()
    named: dict[str, _Kernels] = {}
    others = _Kernels("")
    for row in table:
        name, core = row[name_at], row[core_at]
        if core in kernels.COMMUNICATION_CORES or name.startswith("hcom_"):
            name = _INSTANCE.sub("", name)
        kernel = named.get(name)
        if kernel is None:
            kernel = others if len(named) >= MANY else named.setdefault(name, _Kernels(core))
        kernel.add(1, tables.picoseconds(row[duration_at]))
    return _largest(named, others)


def _largest(named: dict[str, _Kernels], others: _Kernels) -> dict[str, Any]:
    ordered = sorted(named.items(), key=lambda item: (-item[1].total, item[0]))
    for _, kernel in ordered[SHOWN:]:
        others.add(kernel.calls, kernel.total)
    whole = sum(kernel.total for _, kernel in ordered[:SHOWN]) + others.total
    return {
        "calls": sum(kernel.calls for _, kernel in ordered[:SHOWN]) + others.calls,
        "total_us": tables.microseconds(whole),
        "top": [
            {
                "name": one_line(name),
                "core": one_line(kernel.core),
                "calls": kernel.calls,
                "total_us": tables.microseconds(kernel.total),
                "mean_us": tables.microseconds(kernel.total // kernel.calls),
                "share_pct": round(100 * kernel.total / whole, 3) if whole else None,
            }
            for name, kernel in ordered[:SHOWN]
        ],
        "others": {"calls": others.calls, "total_us": tables.microseconds(others.total)},
    }


_READ = {STEP_TABLE: step_times, KERNEL_TABLE: kernel_times}
