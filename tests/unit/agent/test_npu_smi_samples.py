"""The yardstick: real outputs with the values read by eye, where that collection lies beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collect_agent.npu.failures import (
    NpuSmiBoardTypeError,
    NpuSmiDriverError,
    NpuSmiError,
    NpuSmiFormatError,
    NpuSmiInUseError,
    NpuSmiLibraryError,
    NpuSmiMissingError,
)
from collect_agent.npu.interpret import parse_info
from collect_agent.npu.numbering import parse_mapping

SAMPLES = Path(__file__).parents[4] / "shared" / "cases" / "npu-smi"
ERRORS = {
    "dcmi_init": NpuSmiDriverError,
    "dcmi_init_occupied": NpuSmiInUseError,
    "board_type": NpuSmiBoardTypeError,
    "missing_library": NpuSmiLibraryError,
    "not_found": NpuSmiMissingError,
}


def cases() -> list[dict[str, Any]]:
    index = SAMPLES / "index.jsonl"
    return [json.loads(line) for line in index.read_text().splitlines()] if index.is_file() else []


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["file"])
def test_real_output_gives_the_values_a_person_reads(case: dict[str, Any]) -> None:
    text, expected = (SAMPLES / case["file"]).read_text(), case["expected"]
    if "mapping" in expected:
        assert [(c.npu, c.chip, c.logic, c.phy, c.name) for c in parse_mapping(text)] == [
            (row["npu_id"], row["chip_id"], row["logic_id"], row.get("phy_id"), row["name"])
            for row in expected["mapping"]
        ]
        return
    if expected["error"]:
        with pytest.raises(NpuSmiError) as raised:
            parse_info(text)
        assert (type(raised.value), raised.value.code) == (ERRORS[expected["error"]], expected.get("code"))
        return
    if "devices" not in expected:  # the output of other commands is no table of devices
        with pytest.raises(NpuSmiFormatError):
            parse_info(text)
        return
    report = parse_info(text)
    assert (report.tool_version, report.driver_version) == (case["npu_smi_version"], case["driver_version"])
    assert [
        {
            "npu_id": d.npu,
            "chip_id": d.chip,
            "logic_id": d.logic,
            "phy_id": d.phy,
            "name": d.name,
            "health": d.health,
            "aicore_pct": d.utilisation_pct,
            "memory": (d.memory_used_mb, d.memory_total_mb),
            "processes": [{"pid": p.pid, "name": p.name, "mem_mb": p.memory_mb} for p in d.processes],
        }
        for d in report.devices
    ] == [
        {
            **{
                key: row.get(key) for key in ("npu_id", "chip_id", "logic_id", "phy_id", "name", "health", "aicore_pct")
            },
            "memory": tuple(
                row[f"{'mem' if row['hbm_total_mb'] is None else 'hbm'}_{end}_mb"] for end in ("used", "total")
            ),
            "processes": row["processes"],
        }
        for row in expected["devices"]
    ]
