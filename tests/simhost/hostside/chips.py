"""The chips that a simulated host can have: their memory, ids and names, and how npu-smi prints them.

Figures are our own, near what idle hosts of each kind show.
"""

from __future__ import annotations

from collections import namedtuple

from . import tables
from .driver import Device
from .tables import Layout

_CHIP = {
    "ids": tuple(range(16)),
    "power": 0.0,
    "ddr_mb": 0,
    "bus": True,
    "pages": 0,
    "product": "",
    "renumbers": False,
}
Chip = namedtuple("Chip", ["name", "soc", "memory", "driver", "layouts", *_CHIP], defaults=_CHIP.values())
Chip.__doc__ = """A kind of NPU.

`name` is npu-smi's, `soc` that of the runtimes; `memory` has (idle MB, total MB) for every die.  `layouts` are
(first driver version, layout), ascending; `driver` is the version of a host that does not say another.
`ids` are the NPU ids that a host can have.  `power` in W, 0: npu-smi prints NA.  `ddr_mb` beside the HBM.
`bus`: whether there is a PCI address.  `pages`: huge pages in use, -1: as many as processes need.  `product`: the
name of a card.  `renumbers`: npu-smi in a container counts NPUs from 0, as the runtime does.
"""

_310P = (("22.0", tables.P310_22), ("22.0.4", tables.P310_22_4), ("24.1", tables.P310))
_910A = (("21.0", tables.A1_21), ("24.1", tables.A1_24))
_A2 = (("23.0", tables.A2), ("26.0", tables.A2_26))
_A3 = (("24.1", tables.A3), ("26.0", tables.A3_26))
_A5 = (("25.6", tables.A5_25_6), ("25.7", tables.A5))
_SLOTS = (0, 96, 32768, 32896, 128, 224, 32992, 33024)

CHIPS = {
    "310": Chip(
        "310", "Ascend310", ((2607, 8192),) * 4, "21.0.4", (("21.0", tables.P310_21),),
        ids=(1, 4, 5, 8), power=12.8, product="Atlas 300I-3010",
    ),
    "310P3": Chip("310P3", "Ascend310P3", ((1801, 21527),), "23.0.3", _310P, ids=(8, 2144, 2152, 33), pages=-1),
    "310P3 Duo": Chip(
        "310P3", "Ascend310P3", ((1677, 44278), (1233, 43693)), "25.0.rc1", _310P,
        ids=_SLOTS, pages=-1, product="Atlas 300I Duo",
    ),
    "310Pvir04": Chip("310Pvir04", "Ascend310P3", ((991, 10763),), "22.0.4", _310P, ids=(7,), pages=-1),
    "310B4": Chip(
        "310B4", "Ascend310B4", ((3611, 15609),), "23.0.0", (("23.0", tables.P310B),),
        ids=(0,), power=7.2, bus=False, pages=15,
    ),
    "910A": Chip("910A", "Ascend910A", ((1, 32768),), "21.0.4", _910A, power=69.4, ddr_mb=15170, pages=15),
    "910ProB": Chip("910ProB", "Ascend910ProB", ((3, 32768),), "24.1.0", _910A, power=76.1, ddr_mb=15665),
    "910B": Chip(  # a chip of the 910A generation that some drivers call so; it has no process table
        "910B", "Ascend910B", ((2, 32768),), "24.1.0", (("21.0", tables.A1_21), ("24.1", tables.A1)),
        power=71.8, ddr_mb=15169,
    ),
    "910B1": Chip("910B1", "Ascend910B1", ((3366, 65536),), "25.5.1", _A2, power=93.1),
    "910B2": Chip("910B2", "Ascend910B2", ((3349, 65536),), "23.0.7", _A2, power=95.3),
    "910B2C": Chip("910B2C", "Ascend910B2C", ((3411, 65536),), "25.0.rc1.1", _A2, power=92.6),
    "910B3": Chip("910B3", "Ascend910B3", ((3371, 65536),), "25.2.0", _A2, power=91.7),
    "910B4": Chip("910B4", "Ascend910B4", ((2857, 32768),), "25.2.0", _A2, power=82.9),
    "910B4-1": Chip("910B4-1", "Ascend910B4-1", ((3441, 65536),), "26.0.rc1", _A2, power=84.2),
    "Ascend910": Chip(  # Atlas A3; npu-smi does not say which
        "Ascend910", "Ascend910_9392", ((3389, 65536), (3161, 65536)), "25.2.0", _A3, power=177.3,
    ),
    "Ascend950PR": Chip(
        "Ascend950PR", "Ascend950PR_9599", ((5301, 131072),), "25.7.rc1", _A5, power=193.8, renumbers=True,
    ),
    "Ascend950DT": Chip(
        "Ascend950DT", "Ascend950DT_9595", ((4811, 98304),), "25.6.rc1.b218", _A5,
        power=371.9, bus=False, renumbers=True,
    ),
}  # fmt: skip


def devices(name: str, npus: int | None) -> list[Device]:
    """The devices of `npus` NPUs of chip `name`; None: the usual 8, or all.  Raises ValueError for too many."""
    chip = CHIPS[name]
    if npus is not None and npus > len(chip.ids):
        raise ValueError(f"a host has at most {len(chip.ids)} NPUs of {name}")
    dies = len(chip.memory)
    found = []
    for index, npu in enumerate(chip.ids[: npus or 8]):
        for die, (idle_mb, total_mb) in enumerate(chip.memory):
            logic = index * dies + die
            varied = idle_mb + 7 * index % 31
            found.append(Device(logic, npu, die, total_mb, varied, chip.soc, logic))
    return found


def visible(name: str, host: list[Device], phys: list[int] | tuple[int, ...]) -> list[Device]:
    """The devices that a container with these of the `host`'s has: the same NPU ids, but logic ids from 0.

    On Atlas A5 npu-smi counts NPUs from 0 as well.  Raises KeyError for an id that the host does not have.
    """
    by_phy = {device.phy: device for device in host}
    chosen = [by_phy[phy] for phy in sorted(phys)]
    return [
        device._replace(logic=logic, npu=logic if CHIPS[name].renumbers else device.npu)
        for logic, device in enumerate(chosen)
    ]


def layout(chip: Chip, driver: str) -> Layout:
    """The layout that a driver of this version prints for `chip`; the first one for still older drivers."""
    known = [layout for since, layout in chip.layouts if _order(since) <= _order(driver)]
    return known[-1] if known else chip.layouts[0][1]


def _order(version: str) -> tuple[int, ...]:
    """``24.1.rc3.7`` as numbers that compare; a release candidate counts as its release."""
    parts = version.replace(".rc", ".").split(".")
    return tuple(int(part) for part in parts if part.isdigit())
