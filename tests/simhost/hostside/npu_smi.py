"""``npu-smi info`` and ``npu-smi info -m`` in the Atlas A2 and A3 layouts of drivers 24 and 25.

A2 (910B1 to 910B4): one chip an NPU.  A3 (named only ``Ascend910``): two dies an NPU, with a Phy-ID column.
The figures come from the driver directory: used memory is the idle baseline plus what live holders and the
other people's jobs of ``state.json`` take, unless ``state.json`` gives the figure itself.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Dict, Iterable, List, NamedTuple

from . import driver

RULE = "+" + "-" * 27 + "+" + "-" * 15 + "+" + "-" * 52 + "+"
DOUBLE_RULE = RULE.replace("-", "=")
PLAIN_RULE = "+" + "-" * 96 + "+"
HEADING = "| %-26s| %-14s| %-51s|"
PROCESS_HEADING = "| %-26s| %-14s| %-25s| %-24s|"
MAX_ROWS_PER_CHIP = 8


class Reading(NamedTuple):
    """What npu-smi prints of one die; `power` in W as text, `temp` in degrees Celsius, memory in MB."""

    device: driver.Device
    health: str
    power: str
    temp: int
    util: int
    used_mb: int


class Process(NamedTuple):
    """A row of the process table."""

    npu: int
    chip: int
    pid: int
    name: str
    mb: int


def printed_name(name: str) -> str:
    """A process name as npu-smi prints it: colons and tabs dropped, at most 15 characters."""
    return name.replace(":", "").replace("\t", "")[:15]


def process_rows(
    devices: List[driver.Device], held: Dict[int, Dict[int, int]], others: Iterable[Dict[str, Any]]
) -> List[Process]:
    """The process table of holders and of other people's jobs, by NPU, chip and pid."""
    place = {device.logic: device for device in devices}
    names = {pid: driver.process_name(pid) for pid in held}
    taken = [(logic, pid, names[pid], mb) for pid, has in held.items() for logic, mb in has.items()]
    taken += [(int(job["logic"]), int(job["pid"]), str(job["name"]), int(job["mb"])) for job in others]
    return sorted(
        Process(place[logic].npu, place[logic].chip, pid, printed_name(name), mb)
        for logic, pid, name, mb in taken
        if logic in place
    )


def readings(devices: List[driver.Device], rows: List[Process], overrides: Dict[str, Dict[str, Any]]) -> List[Reading]:
    """One reading a die.  Power and temperature are invented, but stay the same for the same die."""
    result = []
    for device in devices:
        said = overrides.get(str(device.logic), {})
        taken = sum(row.mb for row in rows if (row.npu, row.chip) == (device.npu, device.chip))
        power = "-" if device.chip else "%.1f" % (91.7 + device.npu * 1.9)
        result.append(
            Reading(
                device,
                health=said.get("health", "OK"),
                power=said.get("power", power),
                temp=said.get("temp", 38 + device.logic % 5),
                util=said.get("util", 0),
                used_mb=said.get("used_mb", device.idle_used_mb + taken),
            )
        )
    return result


def format_info(chip: str, version: str, readings: List[Reading], rows: List[Process]) -> str:
    """The text of ``npu-smi info``; `chip` is the Name column, e.g. 910B3 or Ascend910."""
    dies = len({reading.device.chip for reading in readings})
    second = "Chip  Phy-ID" if dies > 1 else "Chip"
    lines = [
        PLAIN_RULE,
        "| %-33s%-62s|" % ("npu-smi " + version, "Version: " + version),
        RULE,
        HEADING % ("NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)"),
        HEADING % (second, "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"),
        DOUBLE_RULE,
    ]
    for index, reading in enumerate(readings):
        device = reading.device
        ids = "%-5d %-20d" % (device.chip, device.logic) if dies > 1 else "%-26d" % device.chip
        lines += [
            "| %-5d %-20s| %-13s | %-11s %-17d %-5d/ %-13d |"
            % (device.npu, chip, reading.health, reading.power, reading.temp, 0, 0),
            "| %s| %-13s | %-11d %-5d/ %-10d %-5d/ %-13d |"
            % (ids, bus_id(device), reading.util, 0, 0, reading.used_mb, device.total_mb),
        ]
        last_of_npu = index + 1 == len(readings) or readings[index + 1].device.npu != device.npu
        lines.append(DOUBLE_RULE if last_of_npu else PLAIN_RULE)
    return "\n".join(lines + format_processes(readings, rows)) + "\n"


def format_processes(readings: List[Reading], rows: List[Process]) -> List[str]:
    """The lines of the process table.  An NPU is said to be without processes only when all its dies are."""
    lines = [
        RULE,
        PROCESS_HEADING % ("NPU     Chip", "Process id", "Process name", "Process memory(MB)"),
        DOUBLE_RULE,
    ]
    for npu in sorted({reading.device.npu for reading in readings}):
        of_npu = [row for row in rows if row.npu == npu]
        shown: List[Process] = []
        for chip in sorted({row.chip for row in of_npu}):
            shown += [row for row in of_npu if row.chip == chip][:MAX_ROWS_PER_CHIP]
        lines += ["| %-7d %-18d| %-13d | %-24s | %-23d |" % row for row in shown]
        if not shown:
            lines.append("| %-95s|" % ("No running processes found in NPU %d" % npu))
        lines.append(DOUBLE_RULE)
    return lines


def bus_id(device: driver.Device) -> str:
    """An invented PCI address, different for every die."""
    return "0000:%02X:00.0" % ((0xC1 - 8 * device.logic) % 256)


def format_mapping(chip: str, devices: List[driver.Device]) -> str:
    """The text of ``npu-smi info -m``: the ids of every chip, each NPU's management controller after them."""
    dies = len({device.chip for device in devices})
    name = chip if chip.startswith("Ascend") else "Ascend " + chip
    headings = ["NPU ID", "Chip ID", "Chip Logic ID", "Chip Name"]
    if dies > 1:
        headings.insert(3, "Chip Phy-ID")
    table = [headings]
    for device in devices:
        ids = [device.npu, device.chip, device.logic] + ([device.logic] if dies > 1 else [])
        table.append([str(number) for number in ids] + [name])
        if device.chip == dies - 1:
            table.append([str(device.npu), str(dies)] + ["-"] * (len(headings) - 3) + ["Mcu"])
    return "".join("\t" + " ".join("%-30s" % cell for cell in row) + "\n" for row in table)


def main(directory: str, arguments: List[str]) -> int:
    """Answer a command line; the exit status."""
    state = driver.read_state(directory)
    answer = state["npu_smi"]
    time.sleep(answer["delay"])
    if answer["text"] is not None:
        sys.stdout.write(answer["text"])
        return int(answer["status"])
    devices = driver.read_devices(directory)
    if arguments == ["info", "-m"]:
        sys.stdout.write(format_mapping(state["chip"], devices))
        return 0
    if arguments == ["info"]:
        rows = process_rows(devices, driver.holders(directory), state["processes"])
        read = readings(devices, rows, state["devices"])
        sys.stdout.write(format_info(state["chip"], state["driver_version"], read, rows))
        return 0
    sys.stdout.write("Error parameter of %s\n" % " ".join(arguments))
    return 1
