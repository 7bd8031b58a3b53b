"""Why a program that has ended has not recorded what it should, from its receipts and its words. Pure."""

from __future__ import annotations

import re
from typing import Iterable, List, Optional

from .. import troubles
from ..failure import Failure
from .receipts import Line
from .story import Story, Window

_RAISED = re.compile(
    r"^(?:\[?rank\d+\]?:\s*)?("
    r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b.*|[\w./ -]+: error: .*|Could not (?:override|append to) .*)"
)


def cause(lines: Iterable[str]) -> str:
    """The first exception that ended something, of a program's output: the others mostly follow from it.

    Or what a program says of arguments that it does not take: argparse, Hydra.
    """
    for line in lines:
        found = _RAISED.match(line.strip())
        if found:
            return found.group(1)[:300]
    return ""


def last(lines: Iterable[str]) -> str:
    """The last line that says something: with it a launcher gives up, which is no Python and raises nothing."""
    said = ""
    for line in lines:
        said = line.strip() if any(map(str.isalpha, line)) else said
    return said[:300]


def diagnose(story: Story, lines: List[Line], said: str, status: int, log: str) -> Failure:
    """`lines` of all processes; `said`: see `cause`; `status`: the program's exit status; `log`: where to read."""
    said = ": " + said if said else ""
    by_kind = {line["say"]: line for line in lines if line["say"] != "missing" or line.get("call") in story.calls}
    if "alive" not in by_kind:
        who = "any Python of the command (exit status {})".format(status)
        return troubles.SHIM_NOT_LOADED(who=who, said=said, log=log)
    called = by_kind.keys() & {"profiler", "warmup"}  # of several names one is enough
    if "missing" in by_kind and not called and not said:
        return _no_such_call([line for line in lines if line["say"] == "missing" and line.get("call") in story.calls])
    if "imported" not in by_kind:
        return troubles.PROFILER_NOT_IMPORTED(status=status, said=said, log=log)
    if "short" in by_kind:
        short, rank = by_kind["short"], min(story.ranks)
        if said or status:
            return troubles.NOT_CLOSED(phase=short.get("phase"), rank=rank, status=status, said=said, log=log)
        return troubles.WINDOW_TOO_LONG(
            phase=short.get("phase"), rank=rank, made=short.get("made"), needed=short.get("needed")
        )
    if "profiler" not in by_kind:
        return troubles.PROFILER_NOT_BUILT(status=status, said=said, log=log)
    phase, rank = min(story.wanted - story.closed)
    window = _last(story, phase, rank)
    if window is None:
        return troubles.NO_WINDOW(phase=phase, rank=rank, seen=_seen(lines), said=said, log=log)
    if said or not window.needed:
        return troubles.NOT_CLOSED(phase=phase, rank=rank, status=status, said=said, log=log)
    return troubles.WINDOW_TOO_LONG(phase=phase, rank=rank, made=window.calls, needed=window.needed)


def _no_such_call(missing: List[Line]) -> Failure:
    calls = ["{}".format(line.get("call")) for line in missing]
    more = " ({} more)".format(len(calls) - 1) if len(calls) > 1 else ""
    return troubles.NO_SUCH_CALL(call=calls[0] + more, why=missing[0].get("why"))


def _last(story: Story, phase: str, rank: int) -> Optional[Window]:
    found = [window for window in story.windows.values() if (window.phase, window.rank) == (phase, rank)]
    return found[-1] if found else None


def _seen(lines: List[Line]) -> str:
    built = [line for line in lines if line["say"] == "profiler"]
    named = {"{} of rank {}".format(line.get("phase") or "no known phase", line.get("rank") or 0) for line in built}
    return ", ".join(sorted(named))
