"""Which NPU may be used: a verdict with its reason for every device, and the choice among the free ones.

Fail-closed: a device is free only when everything that npu-smi says about it speaks for it. AI Core
utilisation may reject and never accept: it reads 0 while a profiler runs and between the requests of a served
model. "No process" alone proves nothing either, because containers hide theirs; only the memory tells.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from collect_remote.errors import NoFreeDevice, UsageError

# Idle memory is 4.0 to 8.9 % of the total on all boards from 910A to A5 (driver and firmware).
IDLE_SHARE = 0.10
# Idle chips of one board differ by up to 0.55 GB, so a process hidden from us must be larger than this to be
# seen.
HIDDEN_MARGIN_MB = 1024


@dataclass(frozen=True, slots=True)
class Process:
    """One row of the process table; `name` is empty where npu-smi could not read it (a container without host
    PIDs).
    """

    pid: int
    name: str
    memory_mb: int | None


@dataclass(frozen=True, slots=True)
class Device:
    """One NPU die as npu-smi shows it.

    `chip` is None on A5, which has none. `logic` is what ASCEND_RT_VISIBLE_DEVICES takes; None while unknown.
    Memory is HBM where the layout has it, else DDR, in MB; None where npu-smi printed none. `doubt` says in
    words why the list of processes may be incomplete.
    """

    npu: int
    chip: int | None = None
    logic: int | None = None
    phy: int | None = None
    name: str = ""
    health: str = ""
    power_w: float | None = None
    utilisation_pct: int | None = None
    memory_used_mb: int | None = None
    memory_total_mb: int | None = None
    bus_id: str | None = None
    processes: tuple[Process, ...] = ()
    doubt: str = ""

    @property
    def label(self) -> str:
        """Every name a person may know it by: "NPU 3 chip 1 (logic 7)"."""
        chip = "" if self.chip is None else f" chip {self.chip}"
        logic = "" if self.logic is None else f" (logic {self.logic})"
        return f"NPU {self.npu}{chip}{logic}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a device may be used, and why or why not: "busy: pid 124528 python3.8, 17.0 GB"."""

    device: Device
    free: bool
    reason: str


def judge(devices: Sequence[Device], *, allowed: Collection[int] | None = None) -> tuple[Verdict, ...]:
    """A verdict on every device of one host, in the order given.

    `allowed` are the logic ids of an ASCEND_RT_VISIBLE_DEVICES that the session already has (`visible_ids`);
    None when it has none.
    """
    idlest: dict[str, int] = {}
    for device in devices:
        if device.memory_total_mb and device.memory_used_mb is not None:
            used = device.memory_used_mb
            idlest[device.name] = min(used, idlest.get(device.name, used))
    verdicts = []
    for device in devices:
        objection = _objection(device, idlest.get(device.name, 0), allowed)
        memory = _memory(device.memory_used_mb or 0, device.memory_total_mb or 0)
        verdicts.append(Verdict(device, not objection, objection or f"free: {memory}"))
    return tuple(verdicts)


def _objection(device: Device, idlest_mb: int, allowed: Collection[int] | None) -> str:
    """Why `device` may not be used, or nothing. `idlest_mb` is the memory used on the idlest of its kind."""
    used, total = device.memory_used_mb, device.memory_total_mb
    if device.health != "OK":
        return f"unhealthy: {device.health}"
    if device.processes:
        return f"busy: {_processes(device.processes)}"
    if device.doubt:
        return f"unknown: {device.doubt}"
    if device.logic is None:
        return "unknown: npu-smi does not tell its logic id"
    if allowed is not None and device.logic not in allowed:
        visible = ",".join(map(str, sorted(allowed)))
        return f"not allowed: outside ASCEND_RT_VISIBLE_DEVICES={visible} of the host's session"
    if device.utilisation_pct is None:
        return "unknown: npu-smi does not tell its utilisation"
    if used is None or total is None:
        return "unknown: npu-smi does not tell its memory"
    if total == 0:
        return "unhealthy: no memory, the device does not answer"
    if device.utilisation_pct > 0:
        return f"busy: {device.utilisation_pct} % utilisation and no visible process"
    if used > total * IDLE_SHARE:
        return f"busy: {_memory(used, total)} and no visible process"
    if used > idlest_mb + HIDDEN_MARGIN_MB:
        return f"busy: {_memory(used, total)} and no visible process, {_gb(idlest_mb)} on the idlest of its kind"
    return ""


def rank(verdicts: Iterable[Verdict]) -> tuple[Device, ...]:
    """The free devices, best first: least memory used, then highest id, because people crowd NPU 0."""
    free = [verdict.device for verdict in verdicts if verdict.free]
    return tuple(sorted(free, key=lambda d: (d.memory_used_mb or 0, -d.npu, -(d.chip or 0))))


def choose(verdicts: Sequence[Verdict], wanted: str | None = None) -> list[Device]:
    """The devices that may be used, best first: all free ones, or those of them that `wanted` names.

    `wanted` is "3" (any chip of NPU 3), "3.1" (chip 1 of NPU 3) or "logic:7". Raises UsageError when there is no such
    device, NoFreeDevice with every reason when none may be used.
    """
    candidates = [v for v in verdicts if wanted is None or _is_named(v.device, wanted)]
    if not candidates and wanted is not None:
        present = ", ".join(v.device.label for v in verdicts) or "none"
        raise UsageError(
            f"there is no NPU {wanted!r} on the host",
            f'the host has: {present} (a logic id is written "logic:7")',
        )
    free = rank(candidates)
    if free:
        return list(free)
    reasons = "; ".join(f"{v.device.label} {v.reason}" for v in candidates) or "npu-smi lists none"
    others = ", ".join(device.label for device in rank(verdicts))
    if others:
        raise NoFreeDevice(f"the NPU asked for is not free: {reasons}", f"free at the moment: {others}")
    raise NoFreeDevice(f"no NPU is free: {reasons}", "wait until one is, or ask its users to release it")


def visible_ids(variable: str | None) -> frozenset[int] | None:
    """The logic ids that a value of ASCEND_RT_VISIBLE_DEVICES leaves visible; None when it is not set.

    Read as CANN does: up to the first foreign character, so that "1, 2,3" means 1.
    """
    if variable is None:
        return None
    legible = re.match(r"(?:[0-9]{1,9},)*(?:[0-9]{1,9})?", variable)
    return frozenset(int(word) for word in re.findall(r"[0-9]+", legible[0] if legible else ""))


def _is_named(device: Device, wanted: str) -> bool:
    if re.fullmatch(r"logic:[0-9]{1,9}", wanted):
        return device.logic == int(wanted.removeprefix("logic:"))
    found = re.fullmatch(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?", wanted)
    if not found:
        raise UsageError(
            f"{wanted!r} does not name a device",
            'name it by its NPU ("3"), NPU and chip ("3.1") or logic id ("logic:7")',
        )
    return device.npu == int(found[1]) and (found[2] is None or device.chip == int(found[2]))


def _processes(processes: tuple[Process, ...]) -> str:
    shown = [
        f"pid {p.pid} {p.name or '(name hidden)'}" + ("" if p.memory_mb is None else f", {_gb(p.memory_mb)}")
        for p in processes[:3]
    ]
    more = len(processes) - len(shown)
    return "; ".join(shown) + (f"; {more} more" if more else "")


def _memory(used_mb: int, total_mb: int) -> str:
    return f"{used_mb / 1024:.1f} of {_gb(total_mb)} used"


def _gb(mb: int) -> str:
    return f"{mb / 1024:.1f} GB"
