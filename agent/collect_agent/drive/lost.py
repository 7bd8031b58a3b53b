"""A rank that has ended before its time: the others wait for it until a collective of theirs gives up. Pure."""

from __future__ import annotations

from typing import Callable, Dict, List, Optional, Set, Tuple

from .receipts import Line


def lost(
    of: Dict[int, List[Line]], missing: Set[Tuple[str, int]], lives: Callable[[int], bool]
) -> Optional[Tuple[int, str]]:
    """(rank, the exception that ended it, if one did), None while all ranks are there that can be told from others.

    of: what each process has written. missing: (phase, rank) of the windows that are still to be closed. lives: whether
    a process does. A rank's processes are those that its launcher gave the number to, and not what they start in turn.
    """
    for rank, pids in sorted(_processes(of).items()):
        if any(map(lives, pids)):
            continue
        raised = [line.get("raised") for pid in pids for line in of[pid] if line["say"] == "exit"]
        said = next((one for one in raised if isinstance(one, str)), "")
        if said or rank in {other for _, other in missing}:
            return rank, said
    return None


def _processes(of: Dict[int, List[Line]]) -> Dict[int, List[int]]:
    """By rank: the processes that have come to torch_npu.profiler."""
    born = {pid: line for pid, lines in of.items() for line in lines if line["say"] == "alive"}
    found: Dict[int, List[int]] = {}
    for pid, line in born.items():
        rank, ppid = line.get("rank"), line.get("ppid")
        parent = born.get(ppid, {}) if isinstance(ppid, int) else {}
        if type(rank) is int and parent.get("rank") != rank and any(line["say"] == "imported" for line in of[pid]):
            found.setdefault(rank, []).append(pid)
    return found
