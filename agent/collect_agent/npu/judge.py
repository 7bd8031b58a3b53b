"""Which devices may be used, and why not: a verdict with its reason for every one.

Fail-closed: a device is free only when everything that is known of it speaks for it. AI Core utilisation may reject
and never accept: it reads 0 while a profiler runs and between the requests of a served model. "No process" alone
proves nothing either, because containers hide theirs; only the memory tells.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Collection, Dict, FrozenSet, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..failure import Failure
from . import reasons
from .device import TORCH, Device, Process

# Idle memory is 4.0 to 8.9 % of the total on all boards from 910A to A5 (driver and firmware).
IDLE_SHARE = 0.10
# Idle chips of one board differ by up to 0.55 GB, so a process hidden from us must be larger than this to be seen.
HIDDEN_MARGIN_MB = 1024
# What npu-smi prints besides OK (hicann/driver, npucli).
HEALTH_WORDS = ("Warning", "Alarm", "Critical", "UNKNOWN")


class UsageError(Failure):
    """A wish that cannot be understood, or that no state of this host could fulfil."""

    def __init__(self, message: str, remedy: str, entry: str = "") -> None:
        super().__init__("UsageError", message, remedy, entry)


@dataclass(frozen=True)
class Wish:
    """What is asked for.

    `devices`: nothing, or names of devices: "3" (any chip of NPU 3), "3.1" (chip 1 of NPU 3), "logic:7"; several of
    them stand for one device each. `count`: how many, when no more than one is named. `max_used`: how much memory may
    be in use, "4GB", "4096MB" or "10%", instead of what an idle chip has. `allow_health`: words besides OK.
    """

    devices: Tuple[str, ...] = ()
    count: int = 1
    max_used: Optional[str] = None
    allow_health: Tuple[str, ...] = ()

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Wish:
        """What `dataclasses.asdict` made of a wish, back from JSON."""
        names, words = document["devices"], document["allow_health"]
        return cls(tuple(names), document["count"], document["max_used"], tuple(words))


NO_WISH = Wish()


@dataclass(frozen=True)
class Verdict:
    """Whether a device may be used, and why or why not: "busy: pid 124528 python3.8, 17.4 GB".

    `remark`: what else whoever takes the device should know.
    """

    device: Device
    free: bool
    reason: str
    remark: str = ""

    @property
    def why(self) -> str:
        return "; ".join(filter(None, (self.reason, self.remark)))


def judge(
    devices: Sequence[Device], wish: Wish = NO_WISH, allowed: Optional[Collection[int]] = None
) -> Tuple[Verdict, ...]:
    """A verdict on every device of one host, in the order given.

    Of the wish, `max_used` and `allow_health` count here. `allowed` are the logic ids of an ASCEND_RT_VISIBLE_DEVICES
    that the session already has (`visible_ids`); None when it has none. UsageError for a `max_used` that is no amount.
    """
    idlest: Dict[str, int] = {}
    for device in devices:
        if device.memory_total_mb and device.memory_used_mb is not None:
            idlest[device.name] = min(device.memory_used_mb, idlest.get(device.name, device.memory_used_mb))
    objections = [_objection(device, idlest.get(device.name, 0), wish, allowed) for device in devices]
    verdicts = []
    for device, objection in zip(devices, objections):
        if objection:
            verdicts.append(Verdict(device, False, objection))
        else:
            reason = "free: {} used".format(_gb(device.memory_used_mb or 0))
            remarks = _remarks(device, zip(devices, objections), allowed)
            verdicts.append(Verdict(device, True, reason, "; ".join(remarks)))
    return tuple(verdicts)


def used_limit(max_used: str, total_mb: int) -> int:
    """MB that "4GB", "4096MB" or "10%" allow on a device of `total_mb`; 1 GB is 1024 MB."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*(?:([MG])i?B?|(%))", max_used.strip(), re.IGNORECASE)
    if not found or (found[3] and float(found[1]) > 100):
        raise UsageError("{!r} is no amount of memory".format(max_used), "write 4GB, 4096MB or 10%")
    if found[3]:
        return int(total_mb * float(found[1]) / 100)
    return int(float(found[1]) * (1024 if found[2] in "Gg" else 1))


def visible_ids(variable: Optional[str]) -> Optional[FrozenSet[int]]:
    """The logic ids that a value of ASCEND_RT_VISIBLE_DEVICES leaves visible; None when it is not set.

    Read as CANN does: up to the first foreign character, so that "1, 2,3" means 1.
    """
    if variable is None:
        return None
    legible = re.match(r"(?:[0-9]{1,9},)*(?:[0-9]{1,9})?", variable)
    return frozenset(int(word) for word in re.findall(r"[0-9]+", legible[0] if legible else ""))


def _objection(device: Device, idlest_mb: int, wish: Wish, allowed: Optional[Collection[int]]) -> str:
    """Why `device` may not be used, or nothing. `idlest_mb` is the memory used on the idlest of its kind."""
    used, total = device.memory_used_mb, device.memory_total_mb
    if device.health and device.health != "OK" and device.health not in wish.allow_health:
        return reasons.UNHEALTHY(health=device.health)
    if device.processes:
        return reasons.BUSY(processes=_processes(device.processes))
    if device.doubt:
        return reasons.DOUBTFUL(doubt=device.doubt)
    if allowed is not None and device.logic not in allowed:
        return reasons.NOT_ALLOWED(setting=_setting(allowed))
    # torch_npu tells neither; it could use the device, and the memory is what counts
    if device.source != TORCH and not device.health:
        return _untold("npu-smi", "health")
    if device.source != TORCH and device.utilisation_pct is None:
        return _untold("npu-smi", "utilisation")
    if used is None or total is None:
        return _untold(device.source, "memory")
    if total == 0:
        return reasons.NO_MEMORY()
    if device.utilisation_pct:
        return reasons.COMPUTING(percent=device.utilisation_pct)
    if wish.max_used is not None:
        above = used > used_limit(wish.max_used, total)
        return reasons.ABOVE(used=_gb(used), limit=wish.max_used) if above else ""
    if used > total * IDLE_SHARE:
        return reasons.HIDDEN(used=_gb(used))
    if used > idlest_mb + HIDDEN_MARGIN_MB:
        return reasons.ABOVE_IDLEST(used=_gb(used), idlest=_gb(idlest_mb))
    return ""


def _untold(who: str, what: str) -> str:
    return reasons.DOUBTFUL(doubt=reasons.NOT_TOLD(who=who, what=what))


def _remarks(device: Device, judged: Iterable[Tuple[Device, str]], allowed: Optional[Collection[int]]) -> Iterator[str]:
    """What else there is to know of a free device."""
    if device.health not in ("", "OK"):
        yield "its health is {}, as allowed".format(device.health)
    if device.source == TORCH:
        yield "known from torch_npu only, which shows no processes"
    if allowed is not None:
        yield "inside {} of the host's session".format(_setting(allowed))
    for other, objection in judged:
        if device.npu is not None and other.npu == device.npu and objection.startswith("busy"):
            yield "chip {} of the same card is {}".format(other.chip, objection)


def _setting(allowed: Collection[int]) -> str:
    return "ASCEND_RT_VISIBLE_DEVICES={}".format(",".join(map(str, sorted(allowed))))


def _processes(processes: Tuple[Process, ...]) -> str:
    shown: List[str] = []
    for process in processes[:3]:
        memory = "" if process.memory_mb is None else ", {}".format(_gb(process.memory_mb))
        user = process.user and " of {}".format(process.user)
        shown.append("pid {} {}{}{}".format(process.pid, process.name or "(name hidden)", user, memory))
    more = len(processes) - len(shown)
    return "; ".join(shown) + ("; {} more".format(more) if more else "")


def _gb(mb: int) -> str:
    """Never more than there is: 29954 are 29.9 GB."""
    return "{}.{} GB".format(mb // 1000, mb % 1000 // 100)
