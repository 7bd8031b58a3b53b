"""Finding and ending the processes of a run, by what the kernel says, never by name.

A run's processes carry its id in their environment (`RUN_VARIABLE`), or descend from one that does: so they are found
wherever they moved, to other sessions or process groups, and when they were started with a clean environment. The
supervisor adopts those whose parent has gone (`family.adopt_orphans`). Linux /proc only.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import time
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

RUN_VARIABLE = "COLLECT_REMOTE_RUN"


def start_time(pid: int) -> Optional[str]:
    """The kernel's start time of a process (clock ticks since boot), None when it is gone or a zombie.

    Together with the pid it names one process for ever: pids are used again, this pair is not.
    """
    fields = _stat(pid)
    return fields[19] if fields else None


def identity(pid: int) -> Dict[str, Any]:
    """What names a live process of this place for ever, to be written down."""
    return {"pid": pid, "start_time": start_time(pid), "place": _place()}


def recorded(path: str) -> Optional[int]:
    """The pid of the process whose identity a file holds, None when it is not, or not any more, a process here."""
    known = _known(path)
    if known is None or known["place"] != _place():
        return None
    return int(known["pid"]) if start_time(known["pid"]) == known["start_time"] else None


def sign_of_life(path: str) -> None:
    """To be given again and again by the process that the file names."""
    with contextlib.suppress(OSError):
        os.utime(path)


def elsewhere(path: str) -> bool:
    """Whether the process that a file names cannot be seen from here and, by its last sign of life, is there.

    A directory may be shared: by a host and its containers, which have one kernel and one clock, or by many hosts.
    """
    known, (node, boot, _) = _known(path), _place()
    if known is None or known["place"] == _place():
        return False
    if known["place"][1] == boot:
        patience_s = 30.0
    elif known["place"][0] == node:
        return False  # this host was started again since
    else:
        patience_s = 3600.0  # whoever knows how right their clocks are
    try:
        return time.time() - os.stat(path).st_mtime < patience_s
    except OSError:
        return False


def lives(path: str) -> bool:
    """Whether the process that a file names is there, here or elsewhere."""
    return recorded(path) is not None or elsewhere(path)


def _known(path: str) -> Optional[Dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
        return known if {"pid", "start_time", "place"} <= set(known) else None
    except (OSError, ValueError, TypeError):
        return None


@functools.lru_cache(maxsize=None)
def _place() -> List[str]:
    """The host's name, the boot of its kernel, and the namespace in which pids count."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return [os.uname().nodename, boot, os.readlink("/proc/self/ns/pid")]
    except OSError:  # hidden from us
        return [os.uname().nodename, "", ""]


def of_run(run_id: str) -> List[int]:
    """Live processes that carry the run's id or descend from one that does, this one excluded."""
    needle = "{}={}".format(RUN_VARIABLE, run_id).encode()
    children: Dict[int, List[int]] = {}
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        fields = _stat(pid)
        if fields is None:
            continue
        children.setdefault(int(fields[1]), []).append(pid)
        if needle in environment(pid):
            found.append(pid)
    ours: Set[int] = set()
    while found:
        pid = found.pop()
        if pid not in ours:
            ours.add(pid)
            found += children.get(pid, ())
    return sorted(ours - {os.getpid()})


def end(run_id: str, *, grace_s: float) -> List[int]:
    """End every process of the run but this one: SIGTERM, `grace_s` seconds, SIGKILL. Returns those still there."""
    ours: Set[Tuple[int, Optional[str]]] = set()  # who was ours stays ours when the parent that told so has ended
    left: List[int] = []
    for number, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        until = time.monotonic() + patience
        signalled = set()
        while True:
            ours |= {(pid, start_time(pid)) for pid in of_run(run_id)}
            left = [pid for pid, since in ours if since is not None and start_time(pid) == since]
            if not left:
                return []
            for pid in left:
                if pid not in signalled or number == signal.SIGKILL:
                    signalled.add(pid)
                    _signal(pid, number)
            if time.monotonic() > until:
                break
            time.sleep(0.05)
    return left


def ticks(pids: Iterable[int]) -> int:
    """Processor time that the live ones among `pids` have used, in clock ticks."""
    return sum(int(fields[11]) + int(fields[12]) for fields in map(_stat, pids) if fields)


def command(pid: int) -> str:
    """Its command line, on one line and not endless."""
    try:
        with open("/proc/{}/cmdline".format(pid), "rb") as file:
            return file.read(300).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return "gone"


def forked_from(pid: int) -> Optional[int]:
    """The parent of which a process is still a copy: not yet, or never, another program. None when it is none."""
    fields = _stat(pid)
    parent = int(fields[1]) if fields else 0
    return parent if parent and command(pid) == command(parent) != "gone" else None


def has_mapped(pid: int, name: str) -> bool:
    """Whether a library with `name` in its path is part of the process."""
    try:
        with open("/proc/{}/maps".format(pid), encoding="utf-8", errors="replace") as file:
            return any(name in line for line in file)
    except OSError:
        return False


def _stat(pid: int) -> Optional[List[str]]:
    """The fields of /proc/PID/stat from the state on (state, parent, ...), None when it is gone or a zombie."""
    try:
        with open("/proc/{}/stat".format(pid), encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields


def environment(pid: int) -> List[bytes]:
    """What the process was started with; nothing when it is another user's."""
    try:
        with open("/proc/{}/environ".format(pid), "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _signal(pid: int, number: int) -> None:
    # A descendant may have become another user's (sudo): it is among those that are left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
