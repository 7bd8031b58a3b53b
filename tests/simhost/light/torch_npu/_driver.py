"""The simulated driver: which devices there are, which of them this process may use, and who holds how much memory.

``$SIMHOST`` names a directory with a file ``devices`` (one line a logic id: ``<logic> <npu> <chip> <total_mb>
<idle_used_mb> <soc name>``) and a directory ``holders`` (one file a process that opened a device, with lines
``<logic> <mb>``). Without it there is one Ascend910B3 with 64 GiB.
"""

from __future__ import annotations

import atexit
import os
from typing import Dict, List, NamedTuple, Optional

CONTEXT_MB = 312  # what a process takes from a device before its first tensor


class Chip(NamedTuple):
    logic: int
    npu: int
    chip: int
    total_mb: int
    idle_used_mb: int
    soc: str


def _root() -> Optional[str]:
    return os.environ.get("SIMHOST") or None


def chips() -> List[Chip]:
    """All devices of the host, in the order of their logic ids."""
    root = _root()
    if root is None:
        return [Chip(0, 0, 0, 65536, 3421, "Ascend910B3")]
    try:
        with open(os.path.join(root, "devices")) as file:
            rows = [line.split() for line in file if line.strip()]
    except FileNotFoundError:
        return []
    return sorted(Chip(*(int(cell) for cell in row[:5]), row[5]) for row in rows)  # type: ignore[arg-type]


def visible(all_chips: List[Chip]) -> List[Chip]:
    """The devices that ``ASCEND_RT_VISIBLE_DEVICES`` leaves, numbered anew from 0.

    CANN's rules: logic ids, separated by commas; reading stops at the first foreign character or id that does not
    exist; ids that do not ascend are an error, which leaves no device.
    """
    value = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if value is None:
        return all_chips
    by_logic = {chip.logic: chip for chip in all_chips}
    found: List[Chip] = []
    for token in value.split(","):
        digits = token[: len(token) - len(token.lstrip("0123456789"))]
        if not digits or int(digits) not in by_logic:
            break
        if found and int(digits) <= found[-1].logic:
            return []
        found.append(by_logic[int(digits)])
        if digits != token:
            break
    return found


def _alive(pid: str) -> bool:
    return os.path.exists("/proc/" + pid)


def held_by_others(logic: int) -> int:
    """MB that other live processes hold on a device."""
    root = _root()
    total = 0
    if root is None:
        return total
    folder = os.path.join(root, "holders")
    for pid in os.listdir(folder) if os.path.isdir(folder) else []:
        if not pid.isdigit() or pid == str(os.getpid()) or not _alive(pid):
            continue
        try:
            with open(os.path.join(folder, pid)) as file:
                rows = [line.split() for line in file]
        except FileNotFoundError:
            continue
        total += sum(int(row[1]) for row in rows if len(row) == 2 and int(row[0]) == logic)
    return total


def hold(megabytes: Dict[int, int]) -> None:
    """Publish what this process holds, per logic id; the first call also arranges the release at exit."""
    root = _root()
    if root is None:
        return
    folder = os.path.join(root, "holders")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, str(os.getpid()))
    if not os.path.exists(path):
        atexit.register(_release, path, os.getpid())
    aside = path + ".new"
    with open(aside, "w") as file:
        file.writelines("{} {}\n".format(*row) for row in sorted(megabytes.items()))
    os.replace(aside, path)


def _release(path: str, pid: int) -> None:
    if os.getpid() == pid and os.path.exists(path):
        os.remove(path)
