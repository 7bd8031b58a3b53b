"""The devices of hosts, as a table for a person and as the document of `--json`. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from collect_agent.npu.device import INFO
from collect_agent.npu.judge import Verdict

from ..columns import aligned
from ..errors import CollectError
from ..npus.fleet import Answer

_HEADING = ("NPU", "CHIP", "LOGIC", "NAME", "HEALTH", "UTIL", "MEMORY (MB)", "")


def document(answers: Sequence[Answer]) -> dict[str, Any]:
    """{"hosts": [{"host", "error", "devices": [...]}]}; null for what nothing tells. Memory in MB."""
    return {
        "hosts": [
            {
                "host": answer.host,
                "error": answer.error and _error(answer.error),
                "devices": [_device(verdict) for verdict in answer.verdicts],
            }
            for answer in answers
        ]
    }


def json_text(answers: Sequence[Answer], *, one_line: bool) -> str:
    """The document, a host a line: Python writes JSON with indents at a tenth of the speed."""
    if one_line:
        return json.dumps(document(answers)) + "\n"
    hosts = ",\n".join("  " + json.dumps(host) for host in document(answers)["hosts"])
    return f'{{\n "hosts": [\n{hosts}\n ]\n}}\n'


def _error(error: CollectError) -> dict[str, str]:
    return {name: told for name, told in error.to_json().items() if name in ("kind", "message", "remedy", "entry")}


def _device(verdict: Verdict) -> dict[str, Any]:
    device = verdict.device
    return {
        "npu_id": device.npu,
        "chip_id": device.chip,
        "logic_id": device.logic,
        "phy_id": device.phy,
        "name": device.name if device.source == INFO else device.name or None,
        "health": device.health or None,
        "utilization_pct": device.utilisation_pct,
        "memory_used_mb": device.memory_used_mb,
        "memory_total_mb": device.memory_total_mb,
        "processes": [{"pid": p.pid, "name": p.name, "memory_mb": p.memory_mb} for p in device.processes],
        "free": verdict.free,
        "why": verdict.why,
    }


def text(answers: Sequence[Answer]) -> str:
    """The hosts that have answered, each with a line a device and the verdict on it."""
    blocks = []
    for answer in answers:
        if answer.error is None:
            free = sum(verdict.free for verdict in answer.verdicts)
            rows = [_HEADING, *(_row(verdict) for verdict in answer.verdicts)]
            lines = [f"{answer.host}: {free} of {len(answer.verdicts)} free", *(f"  {line}" for line in aligned(rows))]
            blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _row(verdict: Verdict) -> tuple[str, ...]:
    device = verdict.device
    used, total = ("?" if mb is None else str(mb) for mb in (device.memory_used_mb, device.memory_total_mb))
    utilisation = "-" if device.utilisation_pct is None else f"{device.utilisation_pct} %"
    ids = ("-" if number is None else str(number) for number in (device.npu, device.chip, device.logic))
    return (*ids, device.name or "-", device.health or "-", utilisation, f"{used} / {total}", verdict.why)
