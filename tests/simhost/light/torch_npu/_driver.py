"""The simulated driver: which devices there are, which of them this process may use, and who holds how much memory.

``$SIMHOST`` names a directory with a file ``devices`` (one line a logic id: ``<logic> <npu> <chip> <total_mb>
<idle_used_mb> <soc name> <physical id>``, the last one the logic id where it is left out), a directory ``holders``
(one file a process that opened a device, with lines ``<physical id> <mb>``), one ``in-use`` (a file a device, locked
while it is open) and ``use.log`` (who opened and closed what, when). Without it there is one Ascend910B3 with 64 GiB.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import struct
import time
from typing import Dict, List, NamedTuple, Optional

# What the real torch_npu 2.13.0 knows and how it numbers them; it refuses others, Ascend310 for one.
SOC_VERSIONS = {
    "Ascend910PremiumA": 100, "Ascend910ProA": 101, "Ascend910A": 102, "Ascend910ProB": 103, "Ascend910B": 104,
    "Ascend310P1": 200, "Ascend310P3": 202, "Ascend910B1": 220, "Ascend910B2": 221, "Ascend910B2C": 222,
    "Ascend910B3": 223, "Ascend910B4": 224, "Ascend910B4-1": 225, "Ascend310B4": 243, "Ascend910_9391": 250,
    "Ascend910_9392": 251, "Ascend910_9381": 252, "Ascend910_9382": 253, "Ascend950PR_9599": 260,
    "Ascend950DT_9595": 260,
}  # fmt: skip
CONTEXT_MB = 312  # what a process takes from a device before its first tensor


class Chip(NamedTuple):
    logic: int
    npu: int
    chip: int
    total_mb: int
    idle_used_mb: int
    soc: str
    phy: int


def _root() -> Optional[str]:
    return os.environ.get("SIMHOST") or None


def chips() -> List[Chip]:
    """All devices of the host, in the order of their logic ids."""
    root = _root()
    if root is None:
        return [Chip(0, 0, 0, 65536, 3421, "Ascend910B3", 0)]
    try:
        with open(os.path.join(root, "devices")) as file:
            rows = [line.split() for line in file if line.strip()]
    except FileNotFoundError:
        return []
    return sorted(Chip(*(int(cell) for cell in row[:5]), row[5], int((row[6:] or row)[0])) for row in rows)  # type: ignore[arg-type]


def leave_files() -> None:
    """What CANN writes on a host when a device is first used: its log, what it compiles, and the cache of that.

    The places are those of CANN's references of ASCEND_PROCESS_LOG_PATH, ASCEND_WORK_PATH and ASCEND_CACHE_PATH.
    """
    if _root() is None:
        return
    home, environment = os.path.expanduser("~"), os.environ
    work = environment.get("ASCEND_WORK_PATH")
    log = environment.get("ASCEND_PROCESS_LOG_PATH") or (work and work + "/log") or home + "/ascend/log"
    cache = environment.get("ASCEND_CACHE_PATH") or home + "/atc_data"
    pid = os.getpid()
    for folder, name in (
        (log + "/debug/plog", "plog-{}.log".format(pid)),
        ((work or os.getcwd()) + "/kernel_meta", "kernel_meta_{}.json".format(pid)),
        (cache + "/kernel_cache", "{}.o".format(pid)),
    ):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "w") as file:
            file.write("[INFO] simulated\n")


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


def _procfs(root: str) -> str:
    """Where the host's pids are looked up; a container with pids of its own has the host's procfs beside them."""
    inside = os.path.join(root, "proc")
    return inside if os.path.exists(os.path.join(inside, "self")) else "/proc"


def _pid(root: str) -> int:
    """The number of this process on the host."""
    return int(os.readlink(os.path.join(_procfs(root), "self")))


def held_by_others(phy: int) -> int:
    """MB that other live processes hold on a device, those in other containers of the host included."""
    root = _root()
    total = 0
    if root is None:
        return total
    folder, proc, own = os.path.join(root, "holders"), _procfs(root), str(_pid(root))
    for pid in os.listdir(folder) if os.path.isdir(folder) else []:
        if not pid.isdigit() or pid == own or not os.path.exists(os.path.join(proc, pid)):
            continue
        try:
            with open(os.path.join(folder, pid)) as file:
                rows = [line.split() for line in file]
        except FileNotFoundError:
            continue
        total += sum(int(row[1]) for row in rows if len(row) == 2 and int(row[0]) == phy)
    return total


def hold(megabytes: Dict[int, int]) -> None:
    """Publish what this process holds, per physical id; the first call also arranges the release at exit."""
    root = _root()
    if root is None:
        return
    folder = os.path.join(root, "holders")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, str(_pid(root)))
    if os.getpid() not in _holder:
        atexit.register(_release, path, os.getpid())
        _holder[:] = [os.getpid()]
        _open.clear()  # what a parent had open, before a fork, is not open here
    aside = path + ".new"
    with open(aside, "w") as file:
        file.writelines("{} {}\n".format(*row) for row in sorted(megabytes.items()))
    os.replace(aside, path)
    for phy in megabytes:
        if phy not in _open:
            _log_open(root, phy)


_holder: List[int] = []  # this process, once it holds a device
_open: Dict[int, int] = {}  # physical id -> descriptor, whose lock lasts until this process ends, however it ends


def _log_open(root: str, phy: int) -> None:
    """Lock the device and note it; a process that has it open as well is noted with it."""
    os.makedirs(os.path.join(root, "in-use"), exist_ok=True)
    lock = _open[phy] = os.open(os.path.join(root, "in-use", str(phy)), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    _log(root, "open", phy, _lock(lock, _procfs(root)))


def _lock(descriptor: int, proc: str) -> str:
    """Lock a file; the host's pid of the process that holds it already, or "-"."""
    wanted = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    while True:
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETLK, wanted)
        except (BlockingIOError, PermissionError):  # which of them, POSIX leaves open
            kind, _, _, _, pid = struct.unpack("hhqqi4x", fcntl.fcntl(descriptor, fcntl.F_GETLK, wanted))
            if kind != fcntl.F_UNLCK:  # otherwise it was let go in this moment
                return str(pid) if proc == "/proc" else _locker(os.fstat(descriptor), proc)
        else:
            return "-"


def _locker(file: os.stat_result, proc: str) -> str:
    """Who holds the lock of a file, by the host's table of locks; 0 when it was let go in this moment."""
    name = "{:02x}:{:02x}:{}".format(os.major(file.st_dev), os.minor(file.st_dev), file.st_ino)
    with open(os.path.join(proc, "locks")) as table:
        held = [row for row in map(str.split, table) if row[1] == "POSIX" and row[5] == name]
    return held[0][4] if held else "0"


def _log(root: str, what: str, phy: int, *more: str) -> None:
    line = "{} {} {} {:.6f}".format(what, _pid(root), phy, time.monotonic())
    log = os.open(os.path.join(root, "use.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    os.write(log, (" ".join((line,) + more) + "\n").encode())
    os.close(log)


def _release(path: str, pid: int) -> None:
    if os.getpid() != pid or not os.path.exists(path):
        return
    for phy in _open:
        _log(os.path.dirname(os.path.dirname(path)), "close", phy)
    os.remove(path)
