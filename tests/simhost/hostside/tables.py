"""The table of ``npu-smi info`` in every layout it has had, from plain states.

The widths are those of the published source and of captures (drivers 21 to 26).  A value longer than its column
pushes the rest, as in the real tool.  No import but ``collections``: npu-smi is started often, and ``typing``
alone would double the time it takes.
"""

from __future__ import annotations

from collections import namedtuple

_DIE = {
    "chip": 0,
    "second": 0,
    "name": "910B3",
    "health": "OK",
    "power": "93.5",
    "temp": 41,
    "pages": (0, 0),
    "bus": "0000:C1:00.0",
    "util": 0,
    "ddr": (0, 0),
    "memory": (3391, 65536),
    "processes": (),
    "orphan": False,
    "silent": False,
}
Die = namedtuple("Die", ["npu", *_DIE], defaults=_DIE.values())
Die.__doc__ = """One device of a table, in the words of the table; `npu` has no default.

`second` is the Device or Phy-ID column; `pages`, `ddr` and `memory` are (used, total), the latter two in MB, and
layouts with one pair print `memory`.  `processes` are (pid, name, MB) or (pid, name, MB, pid in the container).
An `orphan` has lost its first line; a `silent` one gets no "No running processes" line.
"""

_LAYOUT = {
    "process_rule": (),
    "process_heading": "",
    "process": "",
    "second": "",
    "chips": True,
    "die_rule": "-",
    "card_rule": (),
    "line_end": "",
}
Layout = namedtuple(
    "Layout", ["key", "rule", "title", "headings", "upper", "lower", *_LAYOUT], defaults=_LAYOUT.values()
)
Layout.__doc__ = """Headings and row formats of one layout.

The cells of `rule` are the widths between the bars, `title` is where "Version" begins, `process_rule` is empty
where there is no process table.  `second` names the second id of line 2 ("", "Device", "Phy-ID"); without `chips`
there is no chip id either.  Dies of one card are divided by a rule with bars ("-") or without ("unbroken"), cards
by a double one of the widths `card_rule`, or `rule`.
"""

_NO_PROCESSES = ((), "", "")
_CHIP_PROCESSES = (
    (27, 15, 52),
    " NPU     Chip              | Process id    | Process name             | Process memory(MB)      ",
    " {npu:<7} {chip:<18}| {pid:<13} | {comm:<24} | {mb:<23} ",
)
_DEVICE_PROCESSES = (
    (31, 17, 54),
    " NPU     Chip                  | Process id      | Process name             | Process memory(MB)        ",
    " {npu:<7} {chip:<22}| {pid:<15} | {comm:<24} | {mb:<25} ",
)


def _chip(key: str, second: str = "", name: int = 20, process: bool = True) -> Layout:
    """Chip, or chip and Phy-ID, in a first cell that leaves `name` for the name: 98 wide with 20."""
    width = 7 + name
    return Layout(
        key,
        (width, 15, 52),
        33,
        (
            f" NPU   {'Name':<{name}}| Health        | Power(W)    Temp(C)           Hugepages-Usage(page)",
            f" {'Chip  ' + second:<{width - 1}}| Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        ",
        ),
        f" {{npu:<5}} {{name:<{name}}}| {{health:<13}} | {{power:<11}} {{temp:<17}} {{pages[0]:<5}}/ {{pages[1]:<13}} ",
        f" {_lower(second, name)}| {{bus:<13}} | {{util:<11}} {{ddr[0]:<5}}/ {{ddr[1]:<10}} "
        "{memory[0]:<5}/ {memory[1]:<13} ",
        *(_CHIP_PROCESSES if process else _NO_PROCESSES),
        second=second,
        die_rule="unbroken",
    )


def _chip_wide(key: str, second: str = "") -> Layout:
    """The 116 wide form of 26.x, with the process id in the container."""
    return Layout(
        key,
        (27, 15, 70),
        44,
        (
            (
                " NPU   Name                | Health        "
                "| Power(W)             Temp(C)                 Hugepages-Usage(page)   "
            ),
            (
                f" {'Chip  ' + second:<26}| Bus-Id        "
                "| AICore(%)            Memory-Usage(MB)        HBM-Usage(MB)           "
            ),
        ),
        " {npu:<5} {name:<20}| {health:<13} | {power:<20} {temp:<23} {pages[0]:<5}/ {pages[1]:<16} ",
        f" {_lower(second, 20)}| {{bus:<13}} | {{util:<20}} {{ddr[0]:<5}}/ {{ddr[1]:<16}} "
        "{memory[0]:<5}/ {memory[1]:<16} ",
        (27, 15, 70),
        " NPU     Chip              | Process id    "
        "| Process name       | Process memory(MB)    | Process id in container ",
        " {npu:<7} {chip:<18}| {pid:<13} | {comm:<18} | {mb:<21} | {inner:<23} ",
        second=second,
        die_rule="unbroken",
    )


def _lower(second: str, name: int) -> str:
    return f"{{chip:<5}} {{second:<{name}}}" if second else f"{{chip:<{6 + name}}}"


def _device(key: str, title: int, name: int, pages: str, process: bool, line_end: str = "") -> Layout:
    """Chip and Device, which is the logic id, with one pair of memory."""
    return Layout(
        key,
        (9 + name, 17, 54),
        title,
        (
            f" NPU     {'Name':<{name}}| Health          | Power(W)     Temp(C)           Hugepages-Usage(page) ",
            f" Chip    {'Device':<{name}}| Bus-Id          | AICore(%)    Memory-Usage(MB)                        ",
        ),
        f" {{npu:<7}} {{name:<{name}}}| {{health:<15}} | {{power:<12}} {{temp:<17}} {pages} ",
        f" {{chip:<7}} {{second:<{name}}}| {{bus:<15}} | {{util:<12}} {{memory[0]:<5}}/ {{memory[1]:<32}} ",
        *(_DEVICE_PROCESSES if process else _NO_PROCESSES),
        second="Device",
        line_end=line_end,
    )


_PAGES = "{pages[0]:<6}/ {pages[1]:<13}"
_PAGES_22 = "{pages[0]:<5}/ {pages[1]:<14}"

P310_21 = Layout(
    "310 of 21.x",
    (19, 17, 40),
    37,
    (
        " NPU     Name      | Health          | Power(W)          Temp(C)              ",
        " Chip    Device    | Bus-Id          | AICore(%)         Memory-Usage(MB)     ",
    ),
    " {npu:<7} {name:<10}| {health:<15} | {power:<17} {temp:<20} ",
    " {chip:<7} {second:<10}| {bus:<15} | {util:<17} {memory[0]:<4} / {memory[1]:<13} ",
    second="Device",
)
P310_22 = _device("310P of 22.0.2", 41, 14, _PAGES_22, process=False)
P310_22_4 = _device("310P of 22.0.4", 49, 22, _PAGES_22, process=False)
P310 = _device("310P", 49, 22, _PAGES, process=True)
P310B = _device("310B", 49, 22, _PAGES, process=False, line_end=" ")
A1_21 = _chip("910A of 21.x", name=15, process=False)
A1 = _chip("910A", process=False)
A1_24 = _chip("910A of 24.1")
A2 = _chip("A2")
A3 = _chip("A3", "Phy-ID")
A2_26 = _chip_wide("A2 of 26.x")
A3_26 = _chip_wide("A3 of 26.x", "Phy-ID")
A5 = Layout(
    "A5",
    (8, 18, 15, 53),
    49,
    (
        " NPU ID | Name             | Health        | Power(W)    Temp(C)           Hugepages-Usage(page) ",
        "        |                  | Bus-Id        | NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)         ",
    ),
    " {npu:<6} | {name:<16} | {health:<13} | {power:<11} {temp:<17} {pages[0]:<6}/ {pages[1]:<13} ",
    "        |                  | {bus:<13} | {util:<11} {ddr[0]:<5}/ {ddr[1]:<10} {memory[0]:<6}/ {memory[1]:<13} ",
    (27, 15, 53),
    " NPU ID                    | Process id    | Process name             | Process memory(MB)       ",
    " {npu:<25} | {pid:<13} | {comm:<24} | {mb:<23} ",  # one short of its heading
    chips=False,
)
A5_25_6 = Layout(
    "A5 of 25.6",
    (8, 18, 15, 70),
    49,
    (
        (
            " NPU ID | Name             | Health        "
            "| Power(W)              Temp(C)                  Hugepages-Usage(page) "
        ),
        (
            "        |                  | Bus-Id        "
            "| NPU Util(%)           Memory-Usage(MB)         HBM-Usage(MB)         "
        ),
    ),
    " {npu:<6} | {name:<16} | {health:<13} | {power:<21} {temp:<24} {pages[0]:<6}/ {pages[1]:<13} ",
    "        |                  | {bus:<13} | {util:<21} {ddr[0]:<6}/ {ddr[1]:<16} {memory[0]:<6}/ {memory[1]:<13} ",
    (27, 15, 70),
    " NPU ID                    | Process id    "
    "| Process name       | Process memory(MB)    | Process id in container ",
    " {npu:<25} | {pid:<13} | {comm:<18} | {mb:<21} | {inner:<23} ",
    chips=False,
    card_rule=(27, 15, 70),
)
LAYOUTS = (
    P310_21, P310_22, P310_22_4, P310, P310B, A1_21, A1, A1_24, A2, A2_26, A3, A3_26, A5, A5_25_6,
)  # fmt: skip


def info(layout: Layout, dies: list[Die] | tuple[Die, ...], tool: str = "25.5.0", driver: str = "25.5.0") -> str:
    """The text of ``npu-smi info`` for `dies`, which stand in the order of the table."""
    width = sum(layout.rule) + len(layout.rule) - 1
    unbroken = "+" + "-" * width + "+"
    lines = [unbroken, _line(f" {'npu-smi ' + tool:<{layout.title}}Version: {driver}".ljust(width))]
    lines += [_rule(layout.rule, "-"), *map(_line, layout.headings), _rule(layout.rule, "=")]
    between_dies = unbroken if layout.die_rule == "unbroken" else _rule(layout.rule, "-")
    between_cards = _rule(layout.card_rule or layout.rule, "=")
    for at, die in enumerate(dies):
        values = die._asdict()
        if not die.orphan:
            lines.append(_line(layout.upper.format(**values)))
        lines.append(_line(layout.lower.format(**values)))
        same_card = at + 1 < len(dies) and dies[at + 1].npu == die.npu
        lines.append(between_dies if same_card else between_cards)
    if layout.process_rule:
        lines += _processes(layout, dies, width)
    return "".join(f"{line}{layout.line_end}\n" for line in lines)


def _processes(layout: Layout, dies: list[Die] | tuple[Die, ...], width: int) -> list[str]:
    """The process table.  An NPU is said to be without processes only when all its dies are."""
    double = _rule(layout.process_rule, "=")
    lines = [_rule(layout.process_rule, "-"), _line(layout.process_heading), double]
    for npu in dict.fromkeys(die.npu for die in dies):
        card = [die for die in dies if die.npu == npu]
        rows = []
        for die in card:
            for pid, comm, mb, *inner in die.processes:
                values = {"npu": npu, "chip": die.chip, "pid": pid, "comm": comm, "mb": mb}
                rows.append(_line(layout.process.format(inner=inner[0] if inner else "NA", **values)))
        if not rows and not any(die.silent for die in card):
            rows.append(_line(f" No running processes found in NPU {npu}".ljust(width)))
        lines += [*rows, double] if rows else []
    return lines


def _rule(widths: tuple[int, ...], mark: str) -> str:
    return "+" + "+".join(mark * width for width in widths) + "+"


def _line(inside: str) -> str:
    return f"|{inside}|"
