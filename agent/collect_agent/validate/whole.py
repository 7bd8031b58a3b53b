"""Checks of the whole, beside those of each profile: the archive, its manifest, and that nothing is missing."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .facts import Expected, Facts
from .registry import FAIL, NA, PASS, WARN

CLOCKS_APART_NS = 5 * 10**9


class TreeCheck(NamedTuple):
    """One rule about the whole."""

    catches: str
    source: str
    remedy: str


TREE_CHECKS: Dict[str, TreeCheck] = {
    "archive": TreeCheck(
        "an archive that is damaged, unsafe, or not what its manifest lists",
        "gzip CRC and length, tar to its two closing blocks, names and types, sizes and digests of the manifest",
        "pull or pack it again",
    ),
    "manifest": TreeCheck(
        "files that are not what the manifest beside them lists",
        "digests; MindStudio Insight adds tables to the database it opens",
        "take the archive, and give viewers copies",
    ),
    "profiles-found": TreeCheck(
        "a path without any profile",
        "torch_npu names its directories <worker>_<digits>_ascend_pt",
        "point at a *_ascend_pt directory, a tree of them, or the archive",
    ),
    "complete": TreeCheck(
        "a phase or a rank that is missing, there twice, or of another run",
        "the phases and ranks that were asked for; the clocks of profiler_info*.json: ranks of a run are on together",
        "the log of that phase and rank says why it wrote none; give every run a directory of its own",
    ),
}


def outcome(name: str, verdict: str, message: str, **figures: Any) -> Dict[str, Any]:
    """A check of the whole in the form of all results."""
    remedy = "" if verdict in (PASS, NA) else TREE_CHECKS[name].remedy
    return dict(id=name, verdict=verdict, message=message, remedy=remedy, **figures)


def unchanged(differences: List[str]) -> Dict[str, Any]:
    """`differences`: files that are gone, or not what the manifest lists."""
    if differences:
        message = "%s is gone, or not what the manifest lists" % differences[0]
        return outcome("manifest", FAIL, message, different=differences[:100])
    return outcome("manifest", PASS, "every file is what the manifest lists")


def complete(profiles: List[Facts], expected: Expected) -> Dict[str, Any]:
    """Every (phase, rank) asked for, once.

    A profile that names no rank is rank 0, one that names no phase is of the only phase asked for.
    """
    only = next(iter(expected.steps)) if len(expected.steps) == 1 else None
    found = [(facts.phase or only, facts.rank or 0) for facts in profiles]
    twice = sorted({pair for pair in found if found.count(pair) > 1}, key=str)
    if twice and expected.steps:
        return outcome("complete", FAIL, "%s is there twice" % _name(twice[0]))
    if not expected.steps and not expected.ranks:
        return outcome("complete", NA, "nobody said which phases and ranks were wanted")
    phases = sorted(expected.steps) or sorted({str(phase) for phase, _ in found})
    wanted = [(phase, rank) for phase in phases for rank in expected.ranks or (0,)]
    missing = [pair for pair in wanted if pair not in found]
    if missing:
        names = ", ".join(map(_name, missing))
        return outcome("complete", FAIL, "%s is missing" % names, missing=[list(pair) for pair in missing])
    beyond = [pair for pair in found if pair not in wanted]
    if beyond:
        return outcome("complete", WARN, "%s was not asked for" % ", ".join(map(_name, beyond)))
    apart = _apart(profiles)
    if apart:
        # Those of one host were together by its own clock, when it judged them.
        verdict, by = (WARN, ", by the clocks of their hosts") if expected.hosts > 1 else (FAIL, "")
        return outcome("complete", verdict, "%s and %s were not recorded at the same time%s" % (*apart, by))
    return outcome("complete", PASS, "%d of %d profiles" % (len(wanted), len(wanted)))


def _apart(profiles: List[Facts]) -> Optional[Tuple[str, str]]:
    """Directories of two ranks of one phase whose profilers were never on together; clocks of hosts differ a little."""
    for phase in {facts.phase for facts in profiles}:
        windows = {}
        for facts in profiles:
            info = facts.info
            if facts.phase == phase and info and info.ended is not None and info.window_ns is not None:
                windows[facts.directory] = info.ended - info.window_ns, info.ended
        if windows:
            latest = max(windows, key=lambda name: windows[name][0])
            earliest = min(windows, key=lambda name: windows[name][1])
            if windows[latest][0] > windows[earliest][1] + CLOCKS_APART_NS:
                return earliest, latest
    return None


def _name(pair: Tuple[Optional[str], int]) -> str:
    return "%s rank %d" % (pair[0] or "the profile of", pair[1])
