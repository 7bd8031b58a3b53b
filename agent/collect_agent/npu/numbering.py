"""From (NPU, chip) to the logic id that ASCEND_RT_VISIBLE_DEVICES takes.

Outside of containers the logic id is the physical id; inside, the runtime counts anew from 0 while npu-smi keeps the
host's NPU ids (CANN 8.0 to 9.1, page of the variable). `npu-smi info -m` tells it where it has the column.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Tuple

from .device import Device
from .failures import NpuSmiFormatError
from .reasons import NO_LOGIC_ID
from .table import Layout, Report

_ID = re.compile(r"[0-9]{1,9}")
_GAP = re.compile(r"\t+|\s{2,}")
_FOREIGN = "`npu-smi info -m` gives logic ids that cannot be this container's"


@dataclass(frozen=True)
class Mapped:
    """A chip in `npu-smi info -m`. `logic` is None on A5, whose NPU ID is the logic id."""

    npu: int
    chip: int
    logic: Optional[int]
    phy: Optional[int]
    name: str


def parse_mapping(text: str) -> Tuple[Mapped, ...]:
    """The chips of `npu-smi info -m`, in its order; none where the text has no such table.

    Read by the names in its heading: A2 and 310P, A3 (with Chip Phy-ID) and A5 (no Chip Logic ID) differ. Rows of the
    MCU, of unavailable NPUs (-1) and rows cut short are left out. NpuSmiFormatError when an id is given twice.
    """
    chips: List[Mapped] = []
    columns: List[str] = []
    for line in text.splitlines():
        cells = _GAP.split(line.strip())
        if "NPU ID" in cells and "Chip ID" in cells:
            columns = cells
        elif len(cells) == len(columns):
            chip = _chip(dict(zip(columns, cells)))
            if chip is None:
                continue
            if any(_same(chip, other) for other in chips):
                raise NpuSmiFormatError("`npu-smi info -m` gives an id twice: {!r}".format(line.strip()))
            chips.append(chip)
    return tuple(chips)


def _chip(row: Dict[str, str]) -> Optional[Mapped]:
    """The chip of a row by column, or None when it has no usable ids."""
    names = ["NPU ID", "Chip ID"] + (["Chip Logic ID"] if "Chip Logic ID" in row else [])
    if not all(_ID.fullmatch(row[name]) for name in names):
        return None
    ids = {name: int(text) for name, text in row.items() if _ID.fullmatch(text)}
    return Mapped(
        ids["NPU ID"], ids["Chip ID"], ids.get("Chip Logic ID"), ids.get("Chip Phy-ID"), row.get("Chip Name", "")
    )


def _same(chip: Mapped, other: Mapped) -> bool:
    return (chip.npu, chip.chip) == (other.npu, other.chip) or (chip.logic is not None and chip.logic == other.logic)


def join(report: Report, mapping: Iterable[Mapped], in_container: bool) -> Tuple[Device, ...]:
    """Give every device of a table its logic id; where nothing tells it for certain, a doubt.

    The mapping decides. Without one: the table's own Device column, the NPU ID on A5, and for the others the ids of
    the host, or in an ordinary container the position in the table. Raises NpuSmiFormatError when two devices would
    share a logic id.

    A container counts from 0, so a mapping with an id beyond the devices of the table speaks of the host's: none of its
    ids is believed.
    """
    mapped = {(chip.npu, chip.chip): chip.logic for chip in mapping if chip.logic is not None}
    listed = [mapped.get((d.npu or 0, d.chip), 0) for d in report.devices if d.chip is not None]
    foreign = in_container and max(listed, default=0) >= len(report.devices)
    joined: List[Device] = []
    for position, device in enumerate(report.devices):
        if report.layout is Layout.NPU_ID:
            logic = device.npu
        elif foreign:
            logic = None
        elif mapped and device.npu is not None and device.chip is not None:
            logic = mapped.get((device.npu, device.chip), device.logic)
        elif report.layout is Layout.CHIP_DEVICE:
            logic = device.logic
        elif in_container:
            # a row that could not be read leaves the positions after it uncertain
            logic = None if report.unreadable else position
        else:
            logic = device.phy if report.layout is Layout.CHIP_PHY_ID else device.npu
        for other in joined:
            if logic is not None and other.logic == logic:
                raise NpuSmiFormatError(
                    "npu-smi gives logic id {} to two devices: {} and {}".format(logic, other.label, device.label)
                )
        unknown = "" if logic is not None else _FOREIGN if foreign else NO_LOGIC_ID()
        joined.append(device.numbered(logic, device.doubt or unknown))
    return tuple(joined)
