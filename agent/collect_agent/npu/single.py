"""The forms of npu-smi that ask for one thing: `-l`, and of one NPU `-t usages` and `-t proc-mem`.

Their values come in lines of `key : value`, before the `Chip ID` that they belong to. A5 has no chips and no such line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional, Tuple

from .device import Process

_PAIR = re.compile(r"(.*?\S)\s*:\s*(.*)")
_PROCESS = re.compile(
    r"Process id\s*:\s*([0-9]{1,9})\s+Process name\s*:(.*?)\s*Process memory\(MB\)\s*:\s*([0-9]{1,9})"
)
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Usage:
    """`-t usages` of one chip: memory in MB and in whole per cent, utilisation in per cent; None for what is absent.

    Memory is HBM where the chip has it, else DDR. `complaint` is what npu-smi said when it could not ask.
    """

    npu: int
    chip: Optional[int]
    memory_total_mb: Optional[int] = None
    memory_used_pct: Optional[int] = None
    aicore_pct: Optional[int] = None
    npu_util_pct: Optional[int] = None
    complaint: str = ""


@dataclass(frozen=True)
class Holders:
    """`-t proc-mem` of one chip: the processes on it; `whole` when the answer says that these are all."""

    npu: int
    chip: Optional[int]
    processes: Tuple[Process, ...]
    whole: bool


def parse_list(text: str) -> Dict[int, Optional[int]]:
    """`npu-smi info -l`: NPU ID -> number of its chips (None on A5, which has none). Empty when it is no list."""
    counts: Dict[int, Optional[int]] = {}
    npu: Optional[int] = None
    for key, value in _pairs(text):
        if key == "NPU ID" and _NUMBER.fullmatch(value):
            npu = int(value)
            counts[npu] = None
        elif key == "Chip Count" and npu is not None and _NUMBER.fullmatch(value):
            counts[npu] = int(value)
    return counts


def parse_usages(text: str) -> Tuple[Usage, ...]:
    """`npu-smi info -t usages -i N`: one Usage a chip; none when it is not such an answer."""
    chips: List[Usage] = []
    npu, chip_count = None, None
    values: Dict[str, int] = {}
    complaint = ""
    for line in text.splitlines():
        found = _PAIR.fullmatch(line.strip())
        if line.strip().startswith("Failed to query"):
            complaint = complaint or line.strip()
        elif found and _NUMBER.fullmatch(found[2]):
            key, number = found[1], int(found[2])
            if key == "NPU ID":
                npu = number
            elif key == "Chip Count":
                chip_count = number
            elif key == "Chip ID" and npu is not None:
                chips.append(_usage(npu, number, values))
                values = {}
            else:
                values[key] = number
    if npu is not None and not chips and (values or complaint):
        # A5, or a dead slot. Values of a chip whose `Chip ID` was cut off belong to nobody.
        chips.append(_usage(npu, None, {} if chip_count else values, complaint))
    return tuple(chips)


def parse_processes(text: str) -> Tuple[Holders, ...]:
    """`npu-smi info -t proc-mem -i N`: the processes of every chip; none when it is not such an answer."""
    chips: List[Holders] = []
    npu: Optional[int] = None
    rows: List[Process] = []
    whole = False
    for line in text.splitlines():
        row = _PROCESS.fullmatch(line.strip())
        found = _PAIR.fullmatch(line.strip())
        if row:
            rows.append(Process(int(row[1]), row[2].strip(), int(row[3])))
            whole = True
        elif line.strip() == "No process in device.":
            whole = True
        elif line.strip().startswith("Process id"):
            whole = False
            break
        elif found and _NUMBER.fullmatch(found[2]):
            if found[1] == "NPU ID":
                npu = int(found[2])
            elif found[1] == "Chip ID" and npu is not None:
                chips.append(Holders(npu, int(found[2]), tuple(rows), whole))
                rows, whole = [], False
    if npu is not None and (rows or whole):
        chips.append(Holders(npu, None, tuple(rows), whole))
    return tuple(chips)


def _pairs(text: str) -> Iterator[Tuple[str, str]]:
    for line in text.splitlines():
        found = _PAIR.fullmatch(line.strip())
        if found:
            yield found[1], found[2]


def _usage(npu: int, chip: Optional[int], values: Dict[str, int], complaint: str = "") -> Usage:
    kind = "HBM" if values.get("HBM Capacity(MB)") else "DDR"
    return Usage(
        npu,
        chip,
        values.get(kind + " Capacity(MB)"),
        values.get(kind + " Usage Rate(%)"),
        values.get("Aicore Usage Rate(%)"),
        values.get("NPU Utilization(%)"),
        complaint,
    )
