"""Who is on the run's devices: our own process, as proof, and strangers, who disturb what is measured.

The program waits while we look: right after the load, before anything is measured, and when a window has closed.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Set, Tuple

from ..failure import Failure
from ..run import process
from ..troubles import DEVICE_SHARED
from . import look as npu_look
from .device import Process
from .interpret import interpret

Moment = Dict[str, Any]
OTHERS = "the program had its devices before: nobody looked who else was on them"
HIDDEN_MB = 1024  # as in `npu.judge`: idle chips of one board differ by up to 0.55 GB


def look(when: str, run_id: str) -> Moment:
    """Every process that npu-smi shows, and which are ours; {"when", "error"} where it does not tell.

    torch_npu is not asked instead: it knows no processes, and would open every device.
    """
    own = set(process.of_run(run_id))
    try:
        seen = npu_look.look(ask_torch=False)
        devices = interpret(seen)
    except Failure as failure:
        return {"when": when, "error": failure.message}
    return {
        "when": when,
        "own": own | set(process.of_run(run_id)),
        "in_container": seen["in_container"],
        "devices": devices,
    }


def tell(moments: Sequence[Moment], held: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """What was seen at every moment, as it goes into the manifest. Pure. {"when", "error"}, or

    {"when", "own": [pid on our devices], "elsewhere": [{"pid", "label"} of ours on others], "strangers": [{"pid",
    "name", "memory_mb", "label"}], "idle": [label of a device of ours that nothing of ours is on], "unexplained_mb":
    most memory that no listed process explains, "limited": whether others may be there without being listed}.

    In a container npu-smi may show ids of the host's namespace. Where it never shows one of ours, the process that is
    on each device right after our load is taken for ours, because we know that one of ours is there.
    """
    ids = {device["logic"] for device in held}
    before = {device["logic"]: device["used_mb"] or 0 for device in held}
    looked = [moment for moment in moments if "error" not in moment]
    own = {pid for moment in looked for pid in moment["own"]}
    if looked and looked[0]["in_container"]:
        rows = [row for moment in looked for device in moment["devices"] for row in device.processes]
        if not any(_is_own(row, own, True) for row in rows):
            first = [device for device in looked[0]["devices"] if device.logic in ids]
            own |= {row.pid for device in first if len(device.processes) == 1 for row in device.processes}
    return [moment if "error" in moment else _told(moment, own, ids, before) for moment in moments]


def _told(moment: Moment, own: Set[int], ids: Set[int], before: Dict[int, int]) -> Dict[str, Any]:
    inside = moment["in_container"]
    ours: List[int] = []
    idle: List[str] = []
    elsewhere, strangers = [], []
    unexplained, limited = 0, inside
    for device in moment["devices"]:
        here = device.logic in ids
        if here and not any(_is_own(row, own, inside) for row in device.processes):
            idle.append(device.label)
        for row in device.processes:
            if _is_own(row, own, inside):
                ours += [row.pid] if here else []
                elsewhere += [] if here else [{"pid": row.pid, "label": device.label}]
            elif here:
                strangers.append({"pid": row.pid, "name": row.name, "memory_mb": row.memory_mb, "label": device.label})
        if here:
            limited = limited or bool(device.doubt)
            listed = sum(row.memory_mb or 0 for row in device.processes)
            unexplained = max(unexplained, (device.memory_used_mb or 0) - before[device.logic] - listed)
    return {
        "when": moment["when"],
        "own": sorted(set(ours)),
        "elsewhere": elsewhere,
        "strangers": strangers,
        "idle": idle,
        "unexplained_mb": unexplained,
        "limited": limited,
    }


def _is_own(row: Process, own: Set[int], in_container: bool) -> bool:
    return row.pid in own or (in_container and row.container_pid in own)


def check(seen: Sequence[Dict[str, Any]], *, allow_shared: bool, leased: bool = True) -> Dict[str, Any]:
    """The check `device-shared`, from what `tell` told; not of a program on devices of its own. Pure."""
    verdict, message, remedy = _judged(seen, allow_shared) if leased else ("na", OTHERS, "")
    return {"id": DEVICE_SHARED.id, "verdict": verdict, "message": message, "remedy": remedy}


def _judged(seen: Sequence[Dict[str, Any]], allow_shared: bool) -> Tuple[str, str, str]:
    looked = [moment for moment in seen if "error" not in moment]
    strangers = {(row["pid"], row["name"], row["label"]) for moment in looked for row in moment["strangers"]}
    elsewhere = {(row["pid"], row["label"]) for moment in looked for row in moment["elsewhere"]}
    limited = any(moment["limited"] for moment in looked)
    if elsewhere:
        who = ", ".join("pid {} on {}".format(pid, label) for pid, label in sorted(elsewhere))
        return "fail", "our process is on another device than it was given: " + who, "compare `npu-smi info -m` by hand"
    if strangers:
        who = ", ".join(
            "pid {} {} on {}".format(pid, name or "(name hidden)", label) for pid, name, label in sorted(strangers)
        )
        message = DEVICE_SHARED.message.format(who=who)
        if allow_shared:
            return "warn", message, ""
        return "fail", message, DEVICE_SHARED.remedy
    if len(looked) < len(seen) or not seen:
        return "warn", "npu-smi did not tell who else was on the device", ""
    hidden = max(moment["unexplained_mb"] for moment in looked)
    if hidden > HIDDEN_MB:
        return "warn", "{:.1f} GB are in use that no process explains: somebody may be hidden".format(hidden / 1e3), ""
    if not limited and looked[0]["idle"]:
        where = ", ".join(looked[0]["idle"])
        message = "our own process is not on the device that it was given: {}".format(where)
        return "fail", message, "compare `npu-smi info -m` by hand"
    seen_by = ", as far as can be seen from here" if limited else ""
    return "pass", "nobody else was on the device, after the load and after every window" + seen_by, ""
