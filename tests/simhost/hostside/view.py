"""What npu-smi knows on a host or in a container: the state of every device, and whose processes it may name.

A container sees the memory that everybody uses, but only the processes born in its own sessions.
"""

from __future__ import annotations

from collections import namedtuple

from . import driver
from .chips import CHIPS, Chip
from .tables import Die, Layout

HOST_PID = 2_000_000  # what the host's pids of processes are above their own, in a container without pids of its own

Job = namedtuple("Job", "phy pid name mb inner shown")
Job.__doc__ = "Use of a device: physical id, pid and pid in a container as printed, and whether it has a row."


def printed_name(name: str) -> str:
    """A process name as npu-smi prints it: colons and tabs dropped, at most 15 characters."""
    return name.replace(":", "").replace("\t", "")[:15]


def jobs(directory: str, state: dict) -> list[Job]:
    """All that uses devices: live holders, and the jobs of others that the state tells of."""
    found, proc = [], driver.procfs(directory)
    for pid, held in driver.holders(directory).items():
        shown = not state["container"] or driver.born_in(pid, proc) == directory
        inner = driver.inner_pid(pid, proc) if state["container"] else pid
        if state["container"] and state["npu_smi"]["pids"] == "host":
            outer = pid if inner != pid else pid + HOST_PID
            found += [Job(phy, outer, "", mb, inner, shown) for phy, mb in held.items()]
        else:
            name = printed_name(driver.process_name(pid, proc)) if shown else ""
            found += [Job(phy, inner, name, mb, "NA", shown) for phy, mb in held.items()]
    for job in state["jobs"]:
        inner = job.get("container_pid", "NA")
        found.append(Job(job["phy"], job["pid"], printed_name(job["name"]), job["mb"], inner, job["shown"]))
    return sorted(found, key=lambda job: job.pid)


def dies(directory: str, state: dict, layout: Layout) -> tuple[list[Die], list[driver.Device]]:
    """The devices that have lines in `layout`, with what the lines say; orphans are marked."""
    chip, using = CHIPS[state["chip"]], jobs(directory, state)
    devices = [driver.Device(*fields) for fields in state["devices"]]
    shown = [device for device in devices if state["said"][device.phy].get("lost") != "row"]
    lines = [
        _die(chip, layout, device, state["said"][device.phy], [job for job in using if job.phy == device.phy])
        for device in shown
    ]
    return lines, shown


def _die(chip: Chip, layout: Layout, device: driver.Device, said: dict, using: list[Job]) -> Die:
    """One device.  Power, temperature and DDR are invented, but stay the same for the same device."""
    taken = sum(job.mb for job in using)
    pages = taken // 2 if chip.pages < 0 else chip.pages
    die = Die(
        device.npu,
        device.chip,
        second=device.logic if layout.second == "Device" else device.phy,
        name=chip.name,
        health=said.get("health", "OK"),
        power=said.get("power", _power(chip, layout, device)),
        temp=said.get("temp", 38 + device.phy % 5),
        pages=(pages, pages),
        bus="0000:%02X:00.0" % ((0xC1 - 8 * device.phy) % 256) if chip.bus else "NA",
        util=said.get("util", 0),
        ddr=(chip.ddr_mb // 9 + 61 * device.phy, chip.ddr_mb) if chip.ddr_mb else (0, 0),
        memory=(said.get("used_mb", device.idle_used_mb + taken), said.get("total_mb", device.total_mb)),
        processes=tuple((job.pid, job.name, job.mb, job.inner) for job in using if job.shown),
        orphan=said.get("lost") == "orphan",
        silent=said.get("silent", False) or "lost" in said,
    )
    if said.get("lost") == "heartbeat":
        return die._replace(power="0.0", temp=0, pages=(0, 0), util=0, ddr=(0, 0), memory=(0, 0), processes=())
    return die


def _power(chip: Chip, layout: Layout, device: driver.Device) -> str:
    if layout.second == "Phy-ID" and device.chip:
        return "-"  # the first die's is that of the card
    return "%.1f" % (chip.power + device.phy % 8 * 1.9) if chip.power else "NA"
