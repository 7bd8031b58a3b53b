"""The text of `npu-smi info` and `npu-smi info -m`, turned into devices with their logic ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from collect_remote.devices import Device
from collect_remote.npu_smi_failures import FORMAT_REMEDY, NpuSmiFormatError, NpuSmiTimeoutError, failure
from collect_remote.npu_smi_table import Layout, Report, read_table


def devices(
    info_text: str, mapping_text: str = "", *, in_container: bool = False, status: int | None = None
) -> tuple[Device, ...]:
    """The devices of `npu-smi info` with the logic ids of `npu-smi info -m`.

    Both must come from where the model will run: the same host or container, the same user. `status` is the exit
    status of `npu-smi info`. Raises NpuSmiError.
    """
    return join(parse_info(info_text, status), parse_mapping(mapping_text), in_container=in_container)


def parse_info(text: str, status: int | None = None) -> Report:
    """Read the table of `npu-smi info` (stdout and stderr in one text).

    Raises NpuSmiError: a failure of npu-smi's own by its name, or NpuSmiFormatError with the first line that
    was not understood.
    """
    known = failure(text, status)
    if isinstance(known, NpuSmiTimeoutError):
        raise known  # its table may end anywhere
    try:
        return read_table(text)
    except NpuSmiFormatError:
        if known:
            raise known from None
        raise


def parse_mapping(text: str) -> dict[tuple[int, int], int]:
    """Read `npu-smi info -m` into (NPU ID, Chip ID) -> Chip Logic ID.

    Empty where there is no such column (A5, whose NPU ID is the logic id) or no table at all. Rows of the MCU
    and of unavailable NPUs (-1) have no logic id. Raises NpuSmiFormatError when an id is given twice.
    """
    mapping: dict[tuple[int, int], int] = {}
    columns: list[str] = []
    for line in text.splitlines():
        cells = re.split(r"\t+|\s{2,}", line.strip())
        if "NPU ID" in cells and "Chip ID" in cells:
            columns = cells
            continue
        row = dict(zip(columns, cells, strict=False))
        ids = [row.get(name, "") for name in ("NPU ID", "Chip ID", "Chip Logic ID")]
        if not all(re.fullmatch(r"[0-9]{1,9}", text) for text in ids):
            continue
        npu, chip, logic = map(int, ids)
        if (npu, chip) in mapping or logic in mapping.values():
            raise NpuSmiFormatError(f"`npu-smi info -m` gives an id twice: {line.strip()!r}", FORMAT_REMEDY)
        mapping[npu, chip] = logic
    return mapping


def join(report: Report, mapping: Mapping[tuple[int, int], int], *, in_container: bool = False) -> tuple[Device, ...]:
    """Give every device its logic id; None where nothing tells it for certain.

    The mapping decides. Without one: the table's own Device column, the NPU ID on A5, and for the others the
    ids of the host, or in an ordinary container, whose runtime counts anew from 0, the position in the table.
    Raises NpuSmiFormatError when two devices would share a logic id.
    """
    owners: dict[int, Device] = {}
    joined = []
    for position, device in enumerate(report.devices):
        if mapping and device.chip is not None:
            logic = mapping.get((device.npu, device.chip), device.logic)
        elif report.layout is Layout.CHIP_DEVICE:
            logic = device.logic
        elif report.layout is Layout.NPU_ID:
            logic = device.npu
        elif in_container:
            # a row that could not be read leaves the positions after it uncertain
            logic = None if report.unreadable else position
        else:
            logic = device.phy if report.layout is Layout.CHIP_PHY_ID else device.npu
        if logic is not None and logic in owners:
            both = f"{owners[logic].label} and {device.label}"
            raise NpuSmiFormatError(f"npu-smi gives logic id {logic} to two devices: {both}", FORMAT_REMEDY)
        joined.append(replace(device, logic=logic))
        if logic is not None:
            owners[logic] = device
    return tuple(joined)


__all__ = ["Layout", "Report", "devices", "join", "parse_info", "parse_mapping"]
