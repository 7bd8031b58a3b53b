"""The forms of npu-smi that ask for one thing: `-l`, and of one NPU `-t usages` and `-t proc-mem`.

Lines of `key : value`. What belongs to a chip stands before its `Chip ID`; A5 has no chips and no such line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional, Tuple

from .device import Process

_PAIR = re.compile(r"(.*?\S)\s*:\s*([0-9]{1,9})")
_MEASURE = re.compile(r".*\((?:MB|%|page)\)")
_PROCESS = re.compile(
    r"Process id\s*:\s*([0-9]{1,9})\s+Process name\s*:(.*?)\s*Process memory\(MB\)\s*:\s*([0-9]{1,9})"
)
_DEAD = re.compile(r"Failed to query npu chip\s*: ([0-9]{1,9}) info\.?")


@dataclass(frozen=True)
class Usage:
    """`-t usages` of one chip: memory in MB and in whole per cent, utilisation in per cent; None for what is absent.

    Memory is HBM where the chip has it, else DDR. `complaint` is what npu-smi said when it could not ask the chip.
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
    """`-t proc-mem` of one chip: the processes on it."""

    npu: int
    chip: Optional[int]
    processes: Tuple[Process, ...]


def parse_list(text: str) -> Dict[int, Optional[int]]:
    """`npu-smi info -l`: NPU ID -> number of its chips (None where it is not told). Empty when it is no list."""
    counts: Dict[int, Optional[int]] = {}
    npu: Optional[int] = None
    for key, number in _numbers(text):
        if key == "NPU ID":
            npu = number
            counts[npu] = None
        elif key == "Chip Count" and npu is not None:
            counts[npu] = number
    return counts


def parse_usages(text: str) -> Tuple[Usage, ...]:
    """`npu-smi info -t usages -i N`: one Usage a chip; none when it is not such an answer."""
    chips: List[Usage] = []
    npu: Optional[int] = None
    has_chips = False
    values: Dict[str, int] = {}
    for line in text.splitlines():
        dead, pair = _DEAD.fullmatch(line.strip()), _PAIR.fullmatch(line.strip())
        if dead and npu is not None:
            chips.append(Usage(npu, int(dead[1]), complaint=line.strip()))
        elif pair and pair[1] == "NPU ID":
            npu = int(pair[2])
        elif pair and pair[1] == "Chip Count":
            has_chips = True
        elif pair and pair[1] == "Chip ID" and npu is not None:
            if values:
                chips.append(_usage(npu, int(pair[2]), values))
            values = {}
        elif pair and _MEASURE.fullmatch(pair[1]):
            values[pair[1]] = int(pair[2])
    if values and npu is not None and not chips and not has_chips:
        chips.append(_usage(npu, None, values))  # A5; elsewhere values without their `Chip ID` belong to nobody
    return tuple(chips)


def parse_processes(text: str) -> Tuple[Holders, ...]:
    """`npu-smi info -t proc-mem -i N`: the processes of every chip; none when it is not such an answer."""
    chips: List[Holders] = []
    npu: Optional[int] = None
    rows: Optional[List[Process]] = None
    for line in text.splitlines():
        row, pair = _PROCESS.fullmatch(line.strip()), _PAIR.fullmatch(line.strip())
        if row:
            rows = [*(rows or []), Process(int(row[1]), row[2].strip(), int(row[3]))]
        elif line.strip() == "No process in device.":
            rows = []
        elif pair and pair[1] == "NPU ID":
            npu = int(pair[2])
        elif pair and pair[1] == "Chip ID" and npu is not None and rows is not None:
            chips.append(Holders(npu, int(pair[2]), tuple(rows)))
            rows = None
    if npu is not None and rows is not None:
        chips.append(Holders(npu, None, tuple(rows)))
    return tuple(chips)


def _numbers(text: str) -> Iterator[Tuple[str, int]]:
    for line in text.splitlines():
        pair = _PAIR.fullmatch(line.strip())
        if pair:
            yield pair[1], int(pair[2])


def _usage(npu: int, chip: Optional[int], values: Dict[str, int]) -> Usage:
    kind = "HBM" if values.get("HBM Capacity(MB)") else "DDR"
    return Usage(
        npu,
        chip,
        values.get(kind + " Capacity(MB)"),
        values.get(kind + " Usage Rate(%)"),
        values.get("Aicore Usage Rate(%)"),
        values.get("NPU Utilization(%)"),
    )
