"""The chips that a simulated host can have, and the devices that follow."""

from __future__ import annotations

from typing import NamedTuple

from .hostside.driver import Device


class Chip(NamedTuple):
    """`dies` an NPU, their SoC name, HBM in MB, and what an idle first die has in use."""

    dies: int
    soc: str
    total_mb: int
    idle_used_mb: int


CHIPS = {
    "910B3": Chip(1, "Ascend910B3", 65536, 3371),
    "910B4": Chip(1, "Ascend910B4", 32768, 2857),
    "Ascend910": Chip(2, "Ascend910_9392", 65536, 3389),  # Atlas A3; npu-smi does not say which
}


def devices(name: str, npus: int) -> list[Device]:
    """The devices of `npus` NPUs of chip `name`; logic ids count dies, and an idle second die uses less."""
    chip = CHIPS[name]
    return [
        Device(
            logic=npu * chip.dies + die,
            npu=npu,
            chip=die,
            total_mb=chip.total_mb,
            idle_used_mb=chip.idle_used_mb + 7 * npu % 31 - 228 * die,
            soc=chip.soc,
        )
        for npu in range(npus)
        for die in range(chip.dies)
    ]
