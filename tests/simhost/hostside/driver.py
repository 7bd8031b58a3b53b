"""The simulated Ascend driver: a directory that says which devices there are and who holds them.

``devices``         what the runtimes find, one line per logic id: ``<logic> <npu> <chip> <total_mb> <MB that others
                    than holders use> <soc name> <phy>``
``holders/<pid>``   lines ``<phy> <mb>``, written by a process when it opens a device
``in-use/<phy>``    locked (fcntl) by a process as long as it has the device open
``use.log``         lines ``open <pid> <phy> <seconds> <pid that had it open, or ->`` and ``close <pid> <phy>
                    <seconds>`` of CLOCK_MONOTONIC; a killed process closes without a line
``state``           what npu-smi says beyond that, and how: see :func:`read_state`

The physical id ``phy`` is the logic id of the host; a container on it counts its own logic ids from 0.  Its
directory has ``devices`` and ``state`` of its own, and links to ``holders``, ``in-use`` and ``use.log`` of the host.

``proc/``           the procfs of the host, in a container with pids of its own; the pids in these files are the host's

A holder counts while its process lives.  A process belongs to the host or container when the environment that
it was started with has ``SIMHOST=<that directory>``, which every session of its SSH server sets.
"""

from __future__ import annotations

import os
import time
from collections import namedtuple

Device = namedtuple("Device", "logic npu chip total_mb idle_used_mb soc phy")
Device.__doc__ = """One NPU die: logic id (what ASCEND_RT_VISIBLE_DEVICES takes), NPU id, chip id, memory in MB, SoC
name, and the physical id, which is the logic id of the bare host."""

SHARED = ("holders", "in-use", "use.log")


def format_devices(devices: list[Device]) -> str:
    """The text of the ``devices`` file."""
    return "".join(" ".join(str(field) for field in device) + "\n" for device in devices)


def read_state(directory: str) -> dict:
    """The file ``state``, a Python literal: reading JSON would double the time that npu-smi takes to start.

    ``chip`` (a name of ``chips.CHIPS``), ``driver_version``, ``tool_version``; ``container``: whether this is one;
    ``devices``: those that npu-smi knows, in its order; ``said``: physical id -> what it says of one instead; ``jobs``:
    those of other people, with ``phy`` and whether they are ``shown``; ``npu_smi``: how it answers.  ``Knobs``
    documents the latter three.
    """
    with open(os.path.join(directory, "state"), encoding="utf-8") as file:
        return eval(file.read(), {"__builtins__": {}})


def procfs(directory: str) -> str:
    """Where the host's pids are looked up, from the host or from inside the container with this `directory`."""
    inside = os.path.join(directory, "proc")
    return inside if os.path.exists(os.path.join(inside, "self")) else "/proc"


def born_in(pid: int, proc: str = "/proc") -> str | None:
    """The driver directory in whose sessions `pid`, a live process (no zombie), was born; None elsewhere."""
    for _ in range(10):
        try:
            with open("%s/%d/environ" % (proc, pid), "rb") as file:
                environment = file.read()
            os.readlink("%s/%d/exe" % (proc, pid))  # a zombie has none
        except OSError:
            return None
        if environment:
            said = [value for value in environment.split(b"\0") if value.startswith(b"SIMHOST=")]
            return os.fsdecode(said[0][len(b"SIMHOST=") :]) if said else None
        time.sleep(0.001)  # empty for a moment while it starts another program
    return None


def processes(directory: str) -> list[int]:
    """Pids of the live processes born in this host's sessions, those that left their session included."""
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return sorted(pid for pid in pids if born_in(pid) == directory)


def holders(directory: str) -> dict[int, dict[int, int]]:
    """Who holds what: pid -> physical id -> MB, of live processes of the host and its containers only."""
    folder, proc = os.path.join(directory, "holders"), procfs(directory)
    held: dict[int, dict[int, int]] = {}
    for entry in sorted(os.listdir(folder)):
        if not entry.isdigit() or not _shares(born_in(int(entry), proc), folder):
            continue
        path = os.path.join(folder, entry)
        try:
            if _age(int(entry), proc) + 0.1 < time.time() - os.stat(path).st_mtime:
                continue  # a killed process left it, whose pid is another's now
            with open(path, encoding="ascii") as lines:
                rows = [line.split() for line in lines]
        except OSError:  # it closed its devices in this moment
            continue
        held[int(entry)] = {int(row[0]): int(row[1]) for row in rows if len(row) == 2}
    return held


def _age(pid: int, proc: str) -> float:
    """Seconds since a process was started, to a hundredth.  Raises OSError when it has ended."""
    with open("%s/%d/stat" % (proc, pid), "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def _shares(directory: str | None, folder: str) -> bool:
    """Whether `folder` is where the processes of `directory` say what they hold; a container cannot see the others."""
    if directory is None:
        return False
    try:
        return os.path.samefile(os.path.join(directory, "holders"), folder)
    except OSError:
        return os.path.islink(folder)


def inner_pid(pid: int, proc: str) -> int:
    """The number that a process has where it runs: another one in a container with pids of its own."""
    try:
        with open("%s/%d/status" % (proc, pid), encoding="utf-8", errors="replace") as file:
            return next((int(line.split()[-1]) for line in file if line.startswith("NSpid:")), pid)
    except OSError:
        return pid


def process_name(pid: int, proc: str = "/proc") -> str:
    """``Name:`` of /proc/<pid>/status; empty when it cannot be read, as npu-smi has it."""
    try:
        with open("%s/%d/comm" % (proc, pid), encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""
