"""The yardstick: real outputs with the values read by eye, where that collection lies beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collect_remote.cli.main import main

SAMPLES = Path(__file__).parents[4] / "shared" / "cases" / "npu-smi"
ERRORS = {
    "dcmi_init": "NpuSmiDriverError",
    "dcmi_init_occupied": "NpuSmiInUseError",
    "board_type": "NpuSmiBoardTypeError",
    "missing_library": "NpuSmiLibraryError",
    "not_found": "NpuSmiMissingError",
}


def cases() -> list[dict[str, Any]]:
    index = SAMPLES / "index.jsonl"
    return [json.loads(line) for line in index.read_text().splitlines()] if index.is_file() else []


def processes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"pid": row["pid"], "name": row["name"], "memory_mb": row["mem_mb"]} for row in rows]


def devices(expected: dict[str, Any]) -> list[dict[str, Any]] | None:
    """What `expected` of the index means for our document, by the form of npu-smi; None for other commands."""
    if "mapping" in expected:
        keys = ("npu_id", "chip_id", "logic_id", "phy_id", "name")
        return [{key: row.get(key) for key in keys} for row in expected["mapping"]]
    if "npu_ids" in expected:
        counts = zip(expected["npu_ids"], expected["chip_counts"], strict=True)
        return [{"npu_id": npu, "chip_id": chip} for npu, count in counts for chip in range(count)]
    if "chips" in expected:
        return [
            {"npu_id": expected["npu_id"], "chip_id": chip["chip_id"], "processes": processes(chip["processes"])}
            if "processes" in chip
            else {
                "npu_id": expected["npu_id"],
                "chip_id": chip["chip_id"],
                "memory_total_mb": chip["hbm_total_mb"],
                "utilization_pct": chip["aicore_pct"],
            }
            for chip in expected["chips"]
        ]
    if "devices" in expected:
        keys = ("npu_id", "chip_id", "logic_id", "phy_id", "name", "health")
        return [
            {
                **{key: row.get(key) for key in keys},
                "utilization_pct": row["aicore_pct"],
                "memory_used_mb": row["mem_used_mb"] if row["hbm_total_mb"] is None else row["hbm_used_mb"],
                "memory_total_mb": row["mem_total_mb"] if row["hbm_total_mb"] is None else row["hbm_total_mb"],
                "processes": processes(row["processes"]),
            }
            for row in expected["devices"]
        ]
    return None


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["file"])
def test_real_output_gives_the_values_a_person_reads(case: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["devices", "--from-file", str(SAMPLES / case["file"]), "--json"])
    (answer,) = json.loads(capsys.readouterr().out)["hosts"]
    error, wanted = case["expected"]["error"], devices(case["expected"])
    if error or wanted is None:
        kind = ERRORS[error] if error else "NpuSmiFormatError"
        assert (status, answer["error"]["kind"], answer["devices"]) == (5, kind, [])
        return
    assert (status, answer["error"]) == (0, None)
    assert [{key: device[key] for key in row} for device, row in zip(answer["devices"], wanted, strict=True)] == wanted
