"""The other forms of npu-smi: ``info -m``, ``info -l``, and ``info -t usages | proc-mem | health`` of one NPU.

All print a tab first, then ``key : value`` lines or, for ``-m``, columns of 30.  Of a device with chips, values
come before the ``Chip ID`` line that says whose they are; Atlas A5 has no chips and no such lines.
"""

from __future__ import annotations

from .tables import Die, Layout

MAPPING = ("NPU ID", "Chip ID", "Chip Logic ID", "Chip Name")
MAPPING_A3 = ("NPU ID", "Chip ID", "Chip Logic ID", "Chip Phy-ID", "Chip Name")
MAPPING_A5 = ("NPU ID", "Slot ID", "Chip ID", "Chip Phy-ID", "Chip Name")


def mapping(rows: list[tuple[str, ...]], columns: tuple[str, ...]) -> str:
    """The text of ``npu-smi info -m`` with any rows and headings."""
    return "".join("\t" + " ".join(f"{value:<30}" for value in row) + "\n" for row in [columns, *rows])


def device_mapping(layout: Layout, dies: list[Die], logic: list[int], phy: list[int]) -> str:
    """``npu-smi info -m`` of `dies` with these logic and physical ids: one of three forms, by generation.

    Each NPU's management controller comes after its chips, as one more chip; an orphan has no row, on Atlas A5 the
    NPU ID -1.
    """
    rows: list[tuple[object, ...]] = []
    for at, die in enumerate(dies):
        name = die.name if die.name.startswith("Ascend") else "Ascend " + die.name
        if not layout.chips:
            rows.append((-1 if die.orphan else die.npu, 0, 0, phy[at], name))
            continue
        ids = (die.npu, die.chip, logic[at]) + ((phy[at],) if layout.second == "Phy-ID" else ())
        if not die.orphan:
            rows.append((*ids, name))
        if at + 1 == len(dies) or dies[at + 1].npu != die.npu:
            rows.append((die.npu, die.chip + 1, *"-" * (len(ids) - 2), "Mcu"))
    columns = MAPPING_A5 if not layout.chips else MAPPING_A3 if layout.second == "Phy-ID" else MAPPING
    return mapping([tuple(map(str, row)) for row in rows], columns)


def listing(dies: list[Die], count_key: str, product: str) -> str:
    """``npu-smi info -l``; `count_key` is "Total Count", or "Card Count" on 310; cards have a `product` name."""
    cards = {npu: sum(die.npu == npu for die in dies) for npu in dict.fromkeys(die.npu for die in dies)}
    lines = [_value(count_key, len(cards))]
    for number, (npu, count) in enumerate(cards.items()):
        lines += ["", _value("NPU ID", npu)]
        if product:
            lines += [_value("Product Name", product), _value("Serial Number", f"033SIM{number:08d}")]
        lines.append(_value("Chip Count", count))
    return _text(lines)


def usages(layout: Layout, npu: int, dies: list[Die], chips: int | None = None) -> str:
    """``npu-smi info -t usages -i <npu>``: capacities in MB and rates in per cent.

    `dies` are those asked for, `chips` is how many the NPU has, None when one was asked for by ``-c``.
    """
    lines = _head(layout, npu, chips)
    for die in dies:
        hbm = not layout.chips or "ddr" in layout.lower
        ddr = die.ddr if hbm else die.memory
        values = {
            "DDR Capacity(MB)": ddr[1],
            "DDR Usage Rate(%)": _per_cent(ddr),
            "DDR Hugepages Total(page)": die.pages[1],
            "DDR Hugepages Usage Rate(%)": _per_cent(die.pages),
        }
        if hbm:
            values.update({"HBM Capacity(MB)": die.memory[1], "HBM Usage Rate(%)": _per_cent(die.memory)})
        values.update({"Aicore Usage Rate(%)": die.util, "Aicpu Usage Rate(%)": 0, "Ctrlcpu Usage Rate(%)": 6})
        values.update({"DDR Bandwidth Usage Rate(%)": 0, **({"HBM Bandwidth Usage Rate(%)": 0} if hbm else {})})
        if not layout.chips:
            values["NPU Utilization(%)"] = die.util
        lines += [*(_value(key, value) for key, value in values.items()), *_foot(layout, die)]
    return _text(lines)


def proc_mem(layout: Layout, npu: int, dies: list[Die]) -> str:
    """``npu-smi info -t proc-mem -i <npu>``: the processes of each of `dies`."""
    lines = ["\t%-30s : %s" % ("NPU ID", npu)]
    for die in dies:
        for pid, comm, mb, *_ in die.processes:
            if not comm:
                lines.append("\tGet pid name failed.")
            lines.append("\tProcess id:%-7d Process name:%-17s Process memory(MB):%d" % (pid, comm, mb))
        lines += [] if die.processes else ["\tNo process in device."]
        lines += _foot(layout, die)
    return _text(lines)


def health(layout: Layout, npu: int, dies: list[Die], chips: int | None) -> str:
    """``npu-smi info -t health -i <npu>``; of one chip (`chips` None) with the error code, and without the ids."""
    if chips is None:
        values = {"Health Status": dies[0].health, "Error Code": "NA", "Error Information": "NA"}
        return _text([_value(key, value) for key, value in values.items()])
    lines = _head(layout, npu, chips)
    for die in dies:
        lines += [_value("Health", die.health), *_foot(layout, die)]
    return _text(lines)


def dead_slot(npu: int, what: str) -> str:
    """The answer for an NPU that has no device behind it."""
    return _text([_value("NPU ID", npu), "\tFailed to query npu chip: 0 info.", f'\tFailed to query "{what}" info.'])


def _head(layout: Layout, npu: int, chips: int | None) -> list[str]:
    count = [_value("Chip Count", chips)] if layout.chips and chips is not None else []
    return [_value("NPU ID", npu), *count, ""]


def _foot(layout: Layout, die: Die) -> list[str]:
    return [_value("Chip ID", die.chip)] if layout.chips else []


def _per_cent(pair: tuple[object, object]) -> object:
    used, total = pair
    return used * 100 // total if isinstance(used, int) and isinstance(total, int) and total else 0


def _value(key: str, value: object) -> str:
    return f"\t{key:<30} : {value}"


def _text(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)
