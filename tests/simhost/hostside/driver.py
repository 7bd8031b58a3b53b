"""The simulated Ascend driver: a directory that says which devices there are and who holds them.

``devices``         one line per logic id: ``<logic> <npu> <chip> <total_mb> <idle_used_mb> <soc name>``
``holders/<pid>``   lines ``<logic> <mb>``, written by a process when it opens a device
``state.json``      what npu-smi says beyond that: see :func:`read_state`

A holder counts while its process lives.  A process belongs to the host when the environment that it was
started with has ``SIMHOST=<this directory>``, which every session of the host's SSH server sets.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, List, NamedTuple


class Device(NamedTuple):
    """One NPU die: logic id (what ASCEND_RT_VISIBLE_DEVICES takes), NPU id, chip id, HBM in MB, SoC name."""

    logic: int
    npu: int
    chip: int
    total_mb: int
    idle_used_mb: int
    soc: str


def format_devices(devices: List[Device]) -> str:
    """The text of the ``devices`` file."""
    return "".join(" ".join(str(field) for field in device) + "\n" for device in devices)


def read_devices(directory: str) -> List[Device]:
    """The devices of a driver directory, in the order of the file."""
    with open(os.path.join(directory, "devices"), encoding="ascii") as lines:
        rows = [line.split() for line in lines]
    return [Device(*(int(field) for field in row[:5]), soc=row[5]) for row in rows]  # type: ignore[misc]


def read_state(directory: str) -> Dict[str, Any]:
    """``state.json``.

    ``chip`` and ``driver_version``; ``devices``: logic id as text -> what npu-smi says instead (health,
    used_mb, util, power, temp); ``processes``: jobs of other people (logic, pid, name, mb); ``npu_smi``: text
    instead of the tables or null, status, delay in seconds.
    """
    with open(os.path.join(directory, "state.json"), encoding="utf-8") as file:
        state: Dict[str, Any] = json.load(file)
    return state


def lives_here(pid: int, directory: str) -> bool:
    """Whether `pid` is a live process (no zombie) born in a session of this host."""
    for _ in range(10):
        try:
            with open("/proc/%d/environ" % pid, "rb") as file:
                environment = file.read()
            os.readlink("/proc/%d/exe" % pid)  # a zombie has none
        except OSError:
            return False
        if environment:
            return ("SIMHOST=" + directory).encode() in environment.split(b"\0")
        time.sleep(0.001)  # empty for a moment while it starts another program
    return False


def processes(directory: str) -> List[int]:
    """Pids of the live processes born in this host's sessions, those that left their session included."""
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return sorted(pid for pid in pids if lives_here(pid, directory))


def holders(directory: str) -> Dict[int, Dict[int, int]]:
    """Who holds what: pid -> logic id -> MB of HBM, of live processes only."""
    folder = os.path.join(directory, "holders")
    held: Dict[int, Dict[int, int]] = {}
    for entry in sorted(os.listdir(folder)):
        if not entry.isdigit() or not lives_here(int(entry), directory):
            continue
        try:
            with open(os.path.join(folder, entry), encoding="ascii") as lines:
                rows = [line.split() for line in lines]
        except OSError:  # it closed its devices in this moment
            continue
        held[int(entry)] = {int(row[0]): int(row[1]) for row in rows if len(row) == 2}
    return held


def process_name(pid: int) -> str:
    """``Name:`` of /proc/<pid>/status; empty when it cannot be read, as npu-smi has it."""
    try:
        with open("/proc/%d/comm" % pid, encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""
