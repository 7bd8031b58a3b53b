"""Writes the tables that npu-smi prints, in every layout it has had, from plain states.

The widths are those of the published source and of captures (driver 21 to 26). A value longer than its column
pushes the rest, as in the real tool.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest


@dataclass(frozen=True)
class Die:
    """One device: `second` is the Device or Phy-ID column; `ddr` is None where the layout has one pair only;
    MB.
    """

    npu: int
    chip: int = 0
    second: int | str = 0
    name: str = "910B3"
    health: str = "OK"
    power: str = "93.5"
    temp: int = 41
    pages: tuple[int, int] = (0, 0)
    bus: str = "0000:C1:00.0"
    util: int | str = 0
    ddr: tuple[int, int] = (0, 0)
    memory: tuple[int | str, int | str] = (3391, 65536)
    processes: tuple[tuple[int, str, int], ...] = ()


@dataclass(frozen=True)
class Layout:
    """Headings and row formats of one layout; the cells of `rule` are the widths between the bars."""

    key: str
    rule: tuple[int, ...]
    headings: tuple[str, str]
    upper: str
    lower: str
    process_rule: tuple[int, ...] = ()
    process_heading: str = ""
    process: str = ""
    chips: bool = True


_NAMES = " NPU   Name                | Health        "
_A5_NAMES = " NPU ID | Name             | Health        "
_A5_BUS = "        |                  | Bus-Id        "


def _chips(key: str, ids: str, lower_ids: str, process: bool = True) -> Layout:
    """The 98 wide layouts of Atlas A2 and A3 (and 910A)."""
    return Layout(
        key,
        (27, 15, 52),
        (
            f"{_NAMES}| Power(W)    Temp(C)           Hugepages-Usage(page)",
            f" {ids:<26}| Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        ",
        ),
        " {npu:<5} {name:<20}| {health:<13} | {power:<11} {temp:<17} {pages[0]:<5}/ {pages[1]:<13} ",
        f" {lower_ids}| {{bus:<13}} | {{util:<11}} {{ddr[0]:<5}}/ {{ddr[1]:<10}} {{memory[0]:<5}}/ {{memory[1]:<13}} ",
        (27, 15, 52),
        " NPU     Chip              | Process id    | Process name             | Process memory(MB)      ",
        " {npu:<7} {chip:<18}| {pid:<13} | {comm:<24} | {mb:<23} ",
    )


def _wide(key: str, ids: str, lower_ids: str) -> Layout:
    """The 116 wide form that 26.x prints for the same chips, with the process id in the container."""
    return Layout(
        key,
        (27, 15, 70),
        (
            f"{_NAMES}| Power(W)             Temp(C)                 Hugepages-Usage(page)   ",
            f" {ids:<26}| Bus-Id        | AICore(%)            Memory-Usage(MB)        HBM-Usage(MB)           ",
        ),
        " {npu:<5} {name:<20}| {health:<13} | {power:<20} {temp:<23} {pages[0]:<5}/ {pages[1]:<16} ",
        f" {lower_ids}| {{bus:<13}} | {{util:<20}} {{ddr[0]:<5}}/ {{ddr[1]:<16}} {{memory[0]:<5}}/ {{memory[1]:<16}} ",
        (27, 15, 70),
        " NPU     Chip              | Process id    "
        "| Process name       | Process memory(MB)    | Process id in container ",
        " {npu:<7} {chip:<18}| {pid:<13} | {comm:<18} | {mb:<21} | NA                      ",
    )


_CHIP, _CHIP_PHY = "{chip:<26}", "{chip:<5} {second:<20}"

A2 = _chips("A2", "Chip", _CHIP)
A3 = _chips("A3", "Chip  Phy-ID", _CHIP_PHY)
A2_26 = _wide("A2 of 26.x", "Chip", _CHIP)
A3_26 = _wide("A3 of 26.x", "Chip  Phy-ID", _CHIP_PHY)
A1 = Layout("910A", A2.rule, A2.headings, A2.upper, A2.lower)
P310 = Layout(
    "310P",
    (31, 17, 54),
    (
        " NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) ",
        " Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        ",
    ),
    " {npu:<7} {name:<22}| {health:<15} | {power:<12} {temp:<17} {pages[0]:<6}/ {pages[1]:<13} ",
    " {chip:<7} {second:<22}| {bus:<15} | {util:<12} {memory[0]:<5}/ {memory[1]:<32} ",
    (31, 17, 54),
    " NPU     Chip                  | Process id      | Process name             | Process memory(MB)        ",
    " {npu:<7} {chip:<22}| {pid:<15} | {comm:<24} | {mb:<25} ",
)
P310_21 = Layout(
    "310 of 21.x",
    (19, 17, 40),
    (
        " NPU     Name      | Health          | Power(W)          Temp(C)              ",
        " Chip    Device    | Bus-Id          | AICore(%)         Memory-Usage(MB)     ",
    ),
    " {npu:<7} {name:<10}| {health:<15} | {power:<17} {temp:<20} ",
    " {chip:<7} {second:<10}| {bus:<15} | {util:<17} {memory[0]:<4} / {memory[1]:<13} ",
)
A5 = Layout(
    "A5",
    (8, 18, 15, 53),
    (
        f"{_A5_NAMES}| Power(W)    Temp(C)           Hugepages-Usage(page) ",
        f"{_A5_BUS}| NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)         ",
    ),
    " {npu:<6} | {name:<16} | {health:<13} | {power:<11} {temp:<17} {pages[0]:<6}/ {pages[1]:<13} ",
    "        |                  | {bus:<13} | {util:<11} {ddr[0]:<5}/ {ddr[1]:<10} {memory[0]:<6}/ {memory[1]:<13} ",
    (27, 15, 53),
    " NPU ID                    | Process id    | Process name             | Process memory(MB)       ",
    " {npu:<25} | {pid:<13} | {comm:<24} | {mb:<23} ",
    chips=False,
)
A5_25_6 = Layout(
    "A5 of 25.6",
    (8, 18, 15, 70),
    (
        f"{_A5_NAMES}| Power(W)              Temp(C)                  Hugepages-Usage(page) ",
        f"{_A5_BUS}| NPU Util(%)           Memory-Usage(MB)         HBM-Usage(MB)         ",
    ),
    " {npu:<6} | {name:<16} | {health:<13} | {power:<21} {temp:<24} {pages[0]:<6}/ {pages[1]:<13} ",
    "        |                  | {bus:<13} | {util:<21} {ddr[0]:<6}/ {ddr[1]:<16} {memory[0]:<6}/ {memory[1]:<13} ",
    (27, 15, 70),
    " NPU ID                    | Process id    "
    "| Process name       | Process memory(MB)    | Process id in container ",
    " {npu:<25} | {pid:<13} | {comm:<18} | {mb:<21} | NA                      ",
    chips=False,
)
LAYOUTS = (P310_21, P310, A1, A2, A2_26, A3, A3_26, A5, A5_25_6)


def info(layout: Layout, dies: list[Die] | tuple[Die, ...], tool: str = "25.5.0", driver: str = "25.5.0") -> str:
    """The text of `npu-smi info` for `dies`, which stand in the order of the table."""
    width = sum(layout.rule) + len(layout.rule) - 1
    thin, thick = (_rule(layout.rule, mark) for mark in "-=")
    lines = ["+" + "-" * width + "+", "|" + f" npu-smi {tool:<28} Version: {driver}".ljust(width) + "|", thin]
    lines += [f"|{heading}|" for heading in layout.headings]
    lines.append(thick)
    for die, after in zip_longest(dies, dies[1:]):
        values = {name: getattr(die, name) for name in Die.__dataclass_fields__}
        lines += [f"|{layout.upper.format(**values)}|", f"|{layout.lower.format(**values)}|"]
        same_card = after is not None and after.npu == die.npu
        lines.append("+" + "-" * width + "+" if same_card else thick)
    if layout.process:
        lines += [_rule(layout.process_rule, "-"), f"|{layout.process_heading}|", _rule(layout.process_rule, "=")]
        for npu in dict.fromkeys(die.npu for die in dies):
            lines += _processes(layout, [die for die in dies if die.npu == npu], width)
            lines.append(_rule(layout.process_rule, "="))
    return "\n".join(lines) + "\n"


def _processes(layout: Layout, dies: list[Die], width: int) -> list[str]:
    rows = [
        f"|{layout.process.format(npu=die.npu, chip=die.chip, pid=pid, comm=comm, mb=mb)}|"
        for die in dies
        for pid, comm, mb in die.processes
    ]
    return rows or ["|" + f" No running processes found in NPU {dies[0].npu}".ljust(width) + "|"]


def _rule(widths: tuple[int, ...], mark: str) -> str:
    return "+" + "+".join(mark * width for width in widths) + "+"


def mapping(rows: list[tuple[str, ...]], columns: tuple[str, ...]) -> str:
    """The text of `npu-smi info -m`: a tab, then columns of 30."""
    return "".join("\t" + " ".join(f"{value:<30}" for value in row) + "\n" for row in [columns, *rows])
