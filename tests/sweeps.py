"""Cells of a sweep as its journal knows them, without a host: made from a few parameters."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

import manifests
from collect_remote.request import Request
from collect_remote.sweeps.cells import Cell, Outcome, Progress

SCHEMA = Path(__file__).resolve().parents[1] / "docs" / "sweep.schema.json"
VERSIONS = {"collect_remote": "0.1.0", "cann": "8.3.RC1", "torch": "2.7.1", "torch_npu": "2.7.1"}
# Name, core, calls, microseconds a call.
KERNELS = [
    ("MatMulV2", "AI_CORE", 100, 301.0),
    ("FlashAttentionScore", "MIX_AIC", 50, 88.0),
    ("Add", "AI_VECTOR_CORE", 200, 6.5),
    ("hcom_allReduce_", "HCCL", 20, 70.0),
]
ERROR = {
    "kind": "UnreachableError",
    "message": "no answer from 10.0.0.7 port 22 within 10 s",
    "remedy": "check that the host is up",
    "entry": "unreachable",
    "stage": "connect",
    "host": "",
    "exit_code": 3,
}


def pending(host: str = "ascend01", model: str = "llama", phase: str = "decode", **request: Any) -> Progress:
    """A cell that nothing has been done for; `request`: fields of its request that tell it from others."""
    more = "".join(f" {name}={value}" for name, value in request.items())
    asked = Request(host=host, model=model, phase=phase, **request)
    return Progress(Cell(f"{host}/{model}/{phase}{more}", host, model, asked, "0123456789abcdef"))


def running(progress: Progress, began: float = 1000.0) -> Progress:
    return dataclasses.replace(
        progress, state="running", attempts=progress.attempts + 1, run_id="20261130_010203_5f0c1e", began=began
    )


def valid(
    progress: Progress,
    profiles: list[dict[str, Any]] | None = None,
    versions: Mapping[str, Any] | None = None,
    seconds: float = 12.0,
) -> Progress:
    began = running(progress)
    host, model = progress.cell.host, progress.cell.model
    summary = {"profiles": profiles if profiles is not None else [profile(progress.cell.phase)]}
    directory = f"profiles/{host}/{model}/{began.run_id}"
    outcome = Outcome("valid", None, directory, summary, versions or VERSIONS)
    return dataclasses.replace(began, state="valid", ended=1000.0 + seconds, outcome=outcome)


def failed(progress: Progress, seconds: float = 3.0, state: str = "failed", **error: Any) -> Progress:
    told = {**ERROR, "host": progress.cell.host, **error}
    outcome = Outcome("failed", {**told, "kinds": [told["entry"], "connection"]})
    return dataclasses.replace(running(progress), state=state, ended=1000.0 + seconds, outcome=outcome)


def profile(
    phase: str = "decode",
    rank: int = 0,
    factor: float = 1.0,
    kernels: Mapping[str, float] | None = None,
    step_ms: float = 10.0,
    free_pct: float = 20.0,
    kind: str = "decode",
) -> dict[str, Any]:
    """One profile of a summary, `factor` times as slow as it might be; `kernels`: factors of single ones."""
    times = {name: mean * factor * (kernels or {}).get(name, 1.0) for name, _, _, mean in KERNELS}
    whole = sum(calls * times[name] for name, _, calls, _ in KERNELS)
    median = step_ms * factor
    return {
        "phase": phase,
        "rank": rank,
        "directory": f"{phase}/ascend01_4711_20260204012809251_ascend_pt",
        "chip": "910B",
        "device": f"NPU {rank}",
        "device_name": "910B3",
        "steps": {kind: {"count": 10, "median_ms": median, "mad_ms": 0.1, "min_ms": median - 1, "max_ms": median + 1}},
        "times": {
            "computing_us": 75_000.0 * factor,
            "communication_us": 5_000.0 * factor,
            "free_us": 20_000.0 * factor,
            "computing_pct": 95.0 - free_pct,
            "communication_pct": 5.0,
            "free_pct": free_pct,
        },
        "kernels": {
            "calls": sum(calls for _, _, calls, _ in KERNELS),
            "total_us": whole,
            "top": [
                {
                    "name": name,
                    "core": core,
                    "calls": calls,
                    "total_us": calls * times[name],
                    "mean_us": times[name],
                    "share_pct": 100 * calls * times[name] / whole,
                }
                for name, core, calls, _ in KERNELS
            ],
            "others": {"calls": 0, "total_us": 0.0},
        },
    }


def check(document: Any) -> None:
    """Hold a sweep.json against its schema: every field in its form, and none that it does not describe."""
    validator = Draft202012Validator(manifests.closed(json.loads(SCHEMA.read_text())))
    error = best_match(validator.iter_errors(document))
    assert error is None, f"{error.json_path}: {error.message[:500]}"


def check_written(directory: Path) -> None:
    """Every sweep.json below `directory`."""
    for path in directory.rglob("sweep.json"):
        check(json.loads(path.read_text()))
