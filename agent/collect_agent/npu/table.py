"""The table of `npu-smi info`, read line by line.

Every layout from driver 21 to 26 (310, 910A, 910B, A3, A5) is read the same way: cells divided by `|`, values
by the names in the heading. Offsets and rules differ from version to version and carry no meaning. A row that
cannot be read takes its device out of the result or leaves a doubt on it; it is never guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Dict, List, Optional, Set, Tuple

from .device import Device, Process
from .failures import FORMAT, NpuSmiFormatError
from .reasons import CUT, NO_TABLE, UNSPOKEN

_INTEGER = re.compile(r"[0-9]{1,9}")
_ABSENT = ("NA", "-", "")
_HEALTH = ("OK", "Warning", "Alarm", "Critical", "UNKNOWN")
_UTILISATION = ("AICore(%)", "NPU Util(%)")
_MEMORY = ("HBM-Usage(MB)", "Memory-Usage(MB)")  # the first one that a layout has is the memory that matters
_RULE = re.compile(r"\|?[+=-][+|=\s-]*")  # a bar alone is a row cut short
# Closed, because a title that is wrapped may end inside of a version: "2" of "24.1.0".
_TITLE = re.compile(r"\|\s*npu-smi\s+([^\s|]+)\s+Version:\s*([^\s|]+)\s*\|")
_NO_PROCESS = re.compile(r"\|\s*No running processes found in NPU ([0-9]{1,9})\s*\|")
_COLUMN = re.compile(r"NPU Util\S*|\S+")
# "29954/ 65536", "3347 / 65536" and "NA / 3513" are one value each; other values go by blanks
_VALUE = re.compile(r"(?:[0-9]+|NA|-)\s*/\s*(?:[0-9]+|NA|-)(?!\S)|\S+")

_ID_AND_NAME = re.compile(r"([0-9]{1,9})(?:\s+([A-Za-z0-9_-]+))?")
_WORD = re.compile(r"[A-Za-z]+")
_POWER = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,3})?")
_PROCESS_CELL = re.compile(r" +(?:([0-9]{1,9})|NA|-) +")
_BUS = re.compile(r"[0-9A-Fa-f]{4}(?::[0-9A-Fa-f]{2}){2}\.[0-9A-Fa-f]")
_UNREAD = "a row of the process table cannot be read: {!r}"
# From this driver on, 310P and 910A have the table of processes too; the boards with 310B never have it.
_FIRST_WITH_PROCESSES = 24

_Key = Tuple[Optional[int], Optional[int]]


class Layout(Enum):
    """How a table names its devices: the headings of the ids in a device's second line."""

    CHIP_DEVICE = "Chip Device"  # 310, 310P, 310B; Device is the logic id
    CHIP = "Chip"  # 910A and 910B1 to B4
    CHIP_PHY_ID = "Chip Phy-ID"  # 910_93 (A3)
    NPU_ID = ""  # 950 (A5): NPU ID in the first line, no chips


@dataclass(frozen=True)
class Report:
    """`npu-smi info` as read.

    The versions are None where the title is not whole. `devices` are the wholly readable ones in table order,
    `unreadable` the rows of the others.
    """

    tool_version: Optional[str]
    driver_version: Optional[str]
    layout: Layout
    devices: Tuple[Device, ...]
    unreadable: Tuple[str, ...]


def read_table(text: str) -> Report:
    """Read what `npu-smi info` printed. NpuSmiFormatError has the first line that was not understood."""
    table = _Table()
    for line in text.splitlines():
        table.read(line.strip())
    return table.report()


@dataclass(frozen=True)
class _Heading:
    """The two heading lines.

    `width` is the number of cells; `health` the index of Health, and of Bus-Id below it; `upper` and `lower`
    name the values in the cell after that one.
    """

    layout: Layout
    width: int
    health: int
    upper: Tuple[str, ...]
    lower: Tuple[str, ...]


@dataclass
class _Table:
    """The table while it is read: two heading lines, then two lines a device, then the processes."""

    versions: Tuple[Optional[str], Optional[str]] = (None, None)
    first_heading: List[str] = field(default_factory=list)
    heading: Optional[_Heading] = None
    upper: Optional[Tuple[str, Device]] = None
    devices: Dict[_Key, Device] = field(default_factory=dict)
    in_processes: bool = False
    process_width: int = 0
    processes: Dict[_Key, List[Process]] = field(default_factory=dict)
    idle: Set[int] = field(default_factory=set)
    closed: bool = False
    doubts: Dict[Optional[_Key], str] = field(default_factory=dict)
    unreadable: List[str] = field(default_factory=list)
    stray: str = ""  # the first unreadable row behind the last device: of the processes, when their heading is lost
    noise: List[str] = field(default_factory=list)

    def read(self, line: str) -> None:
        cells = _cells(line)
        if not line:
            pass
        elif _RULE.fullmatch(line):
            self._lose_upper()
            self.closed = bool(self.idle or self.processes or self.doubts)
        elif "|" not in line:
            self.noise.append(line)  # login banners, log lines of the driver, a [WARNING] after the table
        elif title := _TITLE.fullmatch(line):
            self.versions = (title[1], title[2])
        elif cells and all(set(cell) <= {".", "…", " "} for cell in cells):
            pass  # rows that the author of a page left out
        elif self.heading is None:
            self._read_heading(line, [" ".join(cell.split()) for cell in cells])
        elif idle := _NO_PROCESS.fullmatch(line):
            self.in_processes, self.closed = True, False
            self.idle.add(int(idle[1]))
        elif cells[1:2] == ["Process id"]:
            self.in_processes, self.closed, self.process_width = True, False, len(cells)
        elif self.in_processes or _is_process(self.heading, cells):
            self._read_process(self.heading, line, cells)
        else:
            self._read_device(self.heading, line, cells)

    def report(self) -> Report:
        self._lose_upper()
        if self.heading is None or not self.devices:
            raise NpuSmiFormatError(FORMAT.message.format(misfit=self._misfit()))
        listed = tuple(self._whole(key, device) for key, device in self.devices.items())
        return Report(*self.versions, self.heading.layout, listed, tuple(self.unreadable))

    def _whole(self, key: _Key, device: Device) -> Device:
        processes, doubt = tuple(self.processes.get(key, ())), self._doubt(key, device)
        return replace(device, processes=processes, doubt=doubt) if processes or doubt != device.doubt else device

    def _misfit(self) -> str:
        unknown = self.unreadable or ([] if self.first_heading else self.noise)
        if unknown:
            return "first line not understood: {!r}".format(unknown[0])
        if self.first_heading:
            return "it ends before the first device (heading: {!r})".format(" | ".join(self.first_heading))
        return "it is empty"

    def _doubt(self, key: _Key, device: Device) -> str:
        """Why the processes of a device may not all be known; empty when they are."""
        if not self.in_processes:
            return device.doubt or (NO_TABLE() if self._lists_processes(device) else "")
        if not self.closed and key[0] not in self.idle:
            return CUT()
        if self.idle and key[0] not in self.idle and not any(npu == key[0] for npu, _ in self.processes):
            return self.doubts.get(key, UNSPOKEN())  # some versions never do of idle ones: 25.7
        stray = _UNREAD.format(self.stray) if self.stray and not self.process_width else ""
        return self.doubts.get(key) or self.doubts.get(None, stray)

    def _lists_processes(self, device: Device) -> bool:
        """Whether npu-smi of this version, or an unknown one, prints a table of processes for a 310P or 910A."""
        major = re.match(r"[0-9]+", self.versions[1] or "")
        old = major is not None and int(major[0]) < _FIRST_WITH_PROCESSES
        return not old and not device.name.startswith("310B")

    def _read_heading(self, line: str, cells: List[str]) -> None:
        if cells[:2] == ["NPU Name", "Health"] or cells[:3] == ["NPU ID", "Name", "Health"]:
            self.first_heading = cells
        elif self.first_heading and (heading := _heading(self.first_heading, cells)):
            self.heading = heading
        else:
            self.unreadable.append(line)

    def _read_device(self, heading: _Heading, line: str, cells: List[str]) -> None:
        upper, self.upper = self.upper, None
        if upper:
            device = _with_lower(upper[1], heading, cells)
            if device:
                self._add(device)
                return
            self.unreadable.append(upper[0])
        device = _from_upper(heading, cells)
        if device:
            self.upper = (line, device)
        else:
            self.unreadable.append(line)
            self.stray = self.stray or line

    def _add(self, device: Device) -> None:
        key = (device.npu, device.chip)
        if key in self.devices:
            raise NpuSmiFormatError("the output of npu-smi lists {} twice".format(device.label))
        self.devices[key] = device
        self.stray = ""

    def _lose_upper(self) -> None:
        """Give up a first line whose second one is lost: the two lines of a device are adjacent."""
        if self.upper:
            self.unreadable.append(self.upper[0])
        self.upper = None

    def _read_process(self, heading: _Heading, line: str, cells: List[str]) -> None:
        self._lose_upper()
        self.in_processes, self.closed = True, False
        width = self.process_width or len(cells)
        key = None if _is_joined(line, width) else _process_key(heading, cells)
        try:
            process = _process(line, width)
        except ValueError:
            process = None
        if key and process:
            self.processes.setdefault(key, []).append(process)
        else:
            self.doubts[key] = _UNREAD.format(line)


def _heading(first: List[str], second: List[str]) -> Optional[_Heading]:
    """The heading that two lines make, or None when this version does not know it."""
    health = first.index("Health")
    if len(first) != len(second) or len(first) < health + 2 or second[health] != "Bus-Id":
        return None
    ids = " ".join(second[:health]).strip()
    if ids not in {layout.value for layout in Layout} or (health == 2) != (Layout(ids) is Layout.NPU_ID):
        return None
    upper, lower = (tuple(_COLUMN.findall(line[health + 1])) for line in (first, second))
    if not any(name in lower for name in _UTILISATION) or not any(name in lower for name in _MEMORY):
        return None
    return _Heading(Layout(ids), len(first), health, upper, lower)


def _from_upper(heading: _Heading, cells: List[str]) -> Optional[Device]:
    """The device of a first line (id, name, health, power), or None when it is not one."""
    if len(cells) != heading.width:
        return None
    ids = _ID_AND_NAME.fullmatch(" ".join(cells[: heading.health]).strip())
    health = cells[heading.health]
    if not ids or health in _ABSENT or not _WORD.fullmatch(health):
        return None
    values = _VALUE.findall(cells[heading.health + 1])
    named = dict(zip(heading.upper, values)) if len(values) == len(heading.upper) else {}
    power = _POWER.fullmatch(named.get("Power(W)", ""))
    return Device(npu=int(ids[1]), name=ids[2] or "", health=health, power_w=float(power[0]) if power else None)


def _with_lower(device: Device, heading: _Heading, cells: List[str]) -> Optional[Device]:
    """`device` with what a second line says (chip, bus, utilisation, memory), or None when it is not one."""
    names = heading.layout.value.split()
    if len(cells) != heading.width or cells[heading.health] in _HEALTH:
        return None
    ids = " ".join(cells[: heading.health]).split()
    values = _VALUE.findall(cells[heading.health + 1])
    if len(ids) != len(names) or len(values) != len(heading.lower):
        return None
    row = dict(zip(heading.lower, values))
    if any("/" in value for name, value in row.items() if name not in _MEMORY):
        return None  # used / total of something unknown: perhaps the very memory that matters
    try:
        numbers = {name: _number(text) for name, text in zip(names, ids)}
        utilisation = _number(next(row[name] for name in _UTILISATION if name in row))
        used, total = _pair(next(row[name] for name in _MEMORY if name in row))
        # from Atlas A2 on the DDR figure is always 0 / 0, and a table of processes always follows
        listed_below = "HBM-Usage(MB)" in row and _pair(row.get("Memory-Usage(MB)", "0 / 0"))[1] == 0
    except ValueError:
        return None
    chip = numbers.get("Chip")
    if (names and chip is None) or (utilisation or 0) > 100:
        return None
    bus = cells[heading.health]
    return Device(
        device.npu,
        chip,
        numbers.get("Device"),
        numbers.get("Phy-ID"),
        device.name,
        device.health,
        device.power_w,
        utilisation_pct=utilisation,
        memory_used_mb=used,
        memory_total_mb=total,
        bus_id=bus if _BUS.fullmatch(bus) else None,
        doubt=NO_TABLE() if listed_below else "",
    )


def _is_process(heading: _Heading, cells: List[str]) -> bool:
    """Whether a row has the shape of a process row, for captures that lost the heading above it."""
    if len(cells) not in (4, 5) or _process_key(heading, cells) is None:
        return False
    return all(text in _ABSENT or _INTEGER.fullmatch(text) for text in (cells[1], *cells[3:]))


def _process_key(heading: _Heading, cells: List[str]) -> Optional[_Key]:
    """The (NPU, chip) in the first cell of a process row, or None when it cannot be read."""
    ids = cells[0].split() if cells else []
    if len(ids) != (1 if heading.layout is Layout.NPU_ID else 2) or not all(map(_INTEGER.fullmatch, ids)):
        return None
    return int(ids[0]), int(ids[1]) if len(ids) == 2 else None


def _is_joined(line: str, width: int) -> bool:
    """Whether where the name stands there is a number in a cell of its own: the end of the line was lost, and the
    rows of two devices look like one."""
    return any(map(_PROCESS_CELL.fullmatch, line.split("|")[4 : 1 - width]))


def _process(line: str, width: int) -> Process:
    """The process of a row of `width` cells. Its name may be empty, hold blanks, or hold a `|` of its own.

    ValueError when it cannot be read for certain: every other cell has a blank at both ends.
    """
    cells = line.split("|")[1:-1]
    surplus = len(cells) - width
    if surplus < 0 or width not in (4, 5):
        raise ValueError(line)
    pid, memory, *in_container = (_PROCESS_CELL.fullmatch(cells[n]) for n in (1, *range(3 + surplus, len(cells))))
    if not (pid and pid[1] and memory and memory[1] and all(in_container)):
        raise ValueError(line)
    container_pid = next((int(cell[1]) for cell in in_container if cell and cell[1]), None)
    return Process(int(pid[1]), "|".join(cells[2 : 3 + surplus]).strip(), int(memory[1]), container_pid)


def _cells(line: str) -> List[str]:
    """The cells that a `|` closes on both sides: the last one of a line cut short is not among them."""
    return [cell.strip() for cell in line.split("|")[1:-1]] if line.startswith("|") else []


def _number(text: str) -> Optional[int]:
    """A count, or None for NA and -. Raises ValueError for anything else."""
    if text in _ABSENT:
        return None
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _pair(text: str) -> Tuple[Optional[int], Optional[int]]:
    """Used and total of "29954/ 65536". ValueError when it is no pair, or more is used than there is."""
    used, total = (_number(part.strip()) for part in text.split("/"))
    if used is not None and total is not None and used > total:
        raise ValueError(text)
    return used, total
