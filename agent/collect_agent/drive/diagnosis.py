"""Why a program that has ended has not recorded what it should, from its receipts and its words. Pure."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Optional

from .. import troubles
from ..ending import ending
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
        who = "any Python of the command ({})".format(ending(status))
        return troubles.SHIM_NOT_LOADED(who=who, said=said, log=log)
    # Of several names one is enough; a profiler of the program's own is none of ours.
    called = "warmup" in by_kind or any(line.get("wanted") for line in lines if line["say"] == "profiler")
    if "missing" in by_kind and not called and not said:
        return _no_such_call([line for line in lines if line["say"] == "missing" and line.get("call") in story.calls])
    if "imported" not in by_kind:
        return troubles.PROFILER_NOT_IMPORTED(ending=ending(status), said=said, log=log)
    open_phases = {phase for phase, _ in story.wanted - story.closed}
    short = [line for line in lines if line["say"] == "short" and line.get("phase") in open_phases]
    if short:
        return _short(short, story, said, status, log)
    if "profiler" not in by_kind:
        return troubles.PROFILER_NOT_BUILT(ending=ending(status), said=said, log=log)
    phase, rank = min(story.wanted - story.closed)
    window = _last(story, phase, rank)
    if window is None:
        return troubles.NO_WINDOW(phase=phase, rank=rank, seen=_seen(lines), said=said, log=log)
    if said or status or not window.needed:
        return troubles.NOT_CLOSED(phase=phase, rank=rank, ending=ending(status), said=said, log=log)
    return troubles.WINDOW_TOO_LONG(phase=phase, rank=rank, made=window.calls, needed=window.needed)


def _short(told: List[Line], story: Story, said: str, status: int, log: str) -> Failure:
    """Too few calls were steps; a process that only has the module has made none."""
    most = max(told, key=lambda line: _number(line.get("made")))
    made, phase, rank = _number(most.get("made")), most.get("phase"), min(story.ranks)
    if said or status:
        return troubles.NOT_CLOSED(phase=phase, rank=rank, ending=ending(status), said=said, log=log)
    if made:
        return troubles.WINDOW_TOO_LONG(phase=phase, rank=rank, made=made, needed=most.get("needed"))
    others: Dict[str, int] = {}
    for calls in (line.get("calls") for line in told):
        for kind, count in calls.items() if isinstance(calls, dict) else ():
            others[kind] = others.get(kind, 0) + _number(count)
    seen = ", ".join("{} of {}".format(count, kind) for kind, count in sorted(others.items()))
    return troubles.CALL_NOT_MADE(call=_first_of(list(story.calls)), phase=phase, seen=seen or "none at all")


def _number(value: Any) -> int:
    return value if type(value) is int else 0


def _first_of(calls: List[str]) -> str:
    return calls[0] + (" ({} more)".format(len(calls) - 1) if len(calls) > 1 else "")


def _no_such_call(missing: List[Line]) -> Failure:
    calls = ["{}".format(line.get("call")) for line in missing]
    return troubles.NO_SUCH_CALL(call=_first_of(calls), why=missing[0].get("why"))


def _last(story: Story, phase: str, rank: int) -> Optional[Window]:
    found = [window for window in story.windows.values() if (window.phase, window.rank) == (phase, rank)]
    return found[-1] if found else None


def _seen(lines: List[Line]) -> str:
    built = [line for line in lines if line["say"] == "profiler"]
    named = {"{} of rank {}".format(line.get("phase") or "no known phase", line.get("rank") or 0) for line in built}
    return ", ".join(sorted(named))
