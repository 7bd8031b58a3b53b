"""What there is at the end of a sweep and what not: sweep.json and sweep.csv. Pure, but for `write`."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from collect_agent.run.rundir import sync_directory

from ..errors import storage_error
from ..shape import printable
from .cells import Progress
from .peers import Finding
from .summary import KINDS

FORMAT = "collect-remote sweep 1"
NOT_ALL_VALID = 9  # exit code
STATES = ("valid", "failed", "running", "pending")
TOP = 3  # kernels in a row of sweep.csv
_RELEASES = ("cann", "torch", "torch_npu")

_OF_CELL = ("key", "host", "model", "phase", "state", "verdict", "run_id", "directory", "attempts", "seconds")
_OF_ERROR = ("kind", "entry", "message", "remedy")
_OF_PROFILE = (
    *("window", "rank", "chip", "device", "device_name"),
    *(f"{kind}_{figure}" for kind in KINDS for figure in ("steps", "step_median_ms", "step_mad_ms")),
    *("computing_pct", "communication_pct", "free_pct", "kernel_calls", "kernel_total_us"),
    *(f"kernel_{n}_{figure}" for n in range(1, TOP + 1) for figure in ("name", "calls", "mean_us", "share_pct")),
)
COLUMNS = (*_OF_CELL, *(f"error_{name}" for name in _OF_ERROR), *_OF_PROFILE, *_RELEASES, "slower")


def counts(cells: Sequence[Progress]) -> dict[str, int]:
    """{"cells": all of them, state: how many are in it}."""
    found = Counter(progress.state for progress in cells)
    return {"cells": len(cells), **{state: found[state] for state in STATES}}


def exit_code(cells: Sequence[Progress]) -> int:
    """What was not run counts as not valid. Nothing valid at all, for one and the same reason, is that reason's end."""
    if all(progress.state == "valid" for progress in cells):
        return 0
    codes = {(error(progress) or {}).get("exit_code") if progress.state == "failed" else None for progress in cells}
    (code,) = codes if len(codes) == 1 else (None,)
    return code or NOT_ALL_VALID


def document(
    cells: Sequence[Progress], findings: Sequence[Finding], directory: Path | str, started: float
) -> dict[str, Any]:
    """The content of sweep.json (docs/sweep.schema.json). `started`: seconds since the epoch."""
    code = exit_code(cells)
    return {
        "format": FORMAT,
        "directory": str(directory),
        "started": started,
        "ok": code == 0,
        "exit_code": code,
        "counts": counts(cells),
        "cells": [_cell(progress) for progress in cells],
        "slower": [_finding(finding) for finding in findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {**dataclasses.asdict(finding), "evidence": [dataclasses.asdict(one) for one in finding.evidence]}


def _cell(progress: Progress) -> dict[str, Any]:
    cell, outcome = progress.cell, progress.outcome
    return {
        "key": cell.key,
        "host": cell.host,
        "model": cell.model,
        "phase": cell.phase,
        "digest": cell.digest,
        "state": progress.state,
        "verdict": verdict(progress),
        "run_id": progress.run_id,
        "directory": outcome.directory if outcome else None,
        "attempts": progress.attempts,
        "began": progress.began,
        "seconds": seconds(progress),
        "error": error(progress),
        "summary": outcome.summary if outcome else None,
        "versions": dict(outcome.versions) if outcome else {},
    }


def verdict(progress: Progress) -> str | None:
    """Of its profile, where its last attempt came to one."""
    if progress.state == "valid":
        return "valid"
    told = error(progress)
    return "invalid" if told and told["kind"] == "ProfileInvalid" else None


def seconds(progress: Progress) -> float | None:
    """How long its last attempt took; None while it goes on."""
    if progress.state == "running" or progress.began is None or progress.ended is None:
        return None
    return round(progress.ended - progress.began, 3)


def error(progress: Progress) -> Mapping[str, Any] | None:
    """Of the last attempt that has ended."""
    return progress.outcome.error if progress.outcome else None


def csv_text(cells: Sequence[Progress], findings: Sequence[Finding]) -> str:
    """sweep.csv: `COLUMNS`, a line for every profile of a cell, and one for a cell without."""
    slower = {(one.key, one.phase, one.rank): finding.why for finding in findings for one in finding.evidence}
    out = io.StringIO()
    table = csv.DictWriter(out, COLUMNS, lineterminator="\n", extrasaction="ignore")
    table.writeheader()
    for progress in cells:
        profiles = (progress.outcome.summary or {}).get("profiles", []) if progress.outcome else []
        for profile in profiles or [None]:
            row = _columns_of_cell(progress)
            if profile:
                why = slower.get((progress.cell.key, profile["phase"], profile["rank"]))
                row |= {**dict(_columns_of_profile(profile)), "slower": why}
            table.writerow({name: _no_formula(value) for name, value in row.items()})
    return out.getvalue()


def _no_formula(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front; and no control character stays."""
    if not isinstance(value, str):
        return value
    plain = printable(value)
    return f"'{plain}" if plain.startswith(("=", "+", "-", "@")) else plain


def _columns_of_cell(progress: Progress) -> dict[str, Any]:
    cell = _cell(progress)
    told = cell["error"] or {}
    return {
        **{name: cell[name] for name in _OF_CELL},
        **{f"error_{name}": told.get(name) for name in _OF_ERROR},
        **{name: cell["versions"].get(name) for name in _RELEASES},
    }


def _columns_of_profile(profile: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "window", profile["phase"]
    yield from ((name, profile[name]) for name in ("rank", "chip", "device", "device_name"))
    for kind, steps in profile["steps"].items():
        yield f"{kind}_steps", steps["count"]
        yield from ((f"{kind}_step_{figure}", steps[figure]) for figure in ("median_ms", "mad_ms"))
    times, kernels = profile["times"] or {}, profile["kernels"] or {}
    yield from ((name, times.get(name)) for name in ("computing_pct", "communication_pct", "free_pct"))
    yield "kernel_calls", kernels.get("calls")
    yield "kernel_total_us", kernels.get("total_us")
    for n, kernel in enumerate(kernels.get("top", ())[:TOP], 1):
        yield from ((f"kernel_{n}_{figure}", kernel[figure]) for figure in ("name", "calls", "mean_us", "share_pct"))


def write(path: Path, text: str) -> None:
    """The whole file or, as before, none of it, whatever happens meanwhile. StorageError when it cannot be written."""
    part = path.with_name(path.name + ".part")
    try:
        part.unlink(missing_ok=True)  # of one that was killed
        with part.open("x", encoding="utf-8", newline="") as file:  # "x" follows no link
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise storage_error(path.parent, error, "--dir") from error
