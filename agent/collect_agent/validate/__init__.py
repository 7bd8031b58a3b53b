"""Is this profile good? One answer on the host, for a pulled archive, and for whatever someone points at.

Never decided by an exit status, a done-mark, a log line or a number of columns: torch_npu swallows its
exceptions, exits 0 and prints success after parses that failed. Decided by what the files hold, and by
their agreement.
"""

from __future__ import annotations

import os
import stat
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..archive import MANIFEST, MANIFEST_NAME, MAX_MANIFEST, ROOT, Digesting, compare, parse_manifest, read_archive
from ..tarstream import ArchiveError, Entry
from . import configuration, invariants, steps, warmup  # noqa: F401 - each enters its checks, in this order
from .facts import INFO_NAME, OUTPUT, Expected, Facts
from .messages import MESSAGES, explain
from .observe import File, observe, split
from .registry import CHECKS, FAIL, NA, PASS, UNPROVEN, WARN

__all__ = ["CHECKS", "MESSAGES", "TREE_CHECKS", "explain", "validate"]

PHASES = ("prefill", "decode", "both", "forward")

# Checks of the whole, beside those of each profile in CHECKS: id -> what it catches.
TREE_CHECKS = {
    "archive": "an archive that is damaged, unsafe, or not what its manifest lists",
    "manifest": "files beside a manifest.json that are not what it lists: some viewers change what they open",
    "profiles-found": "a path without any profile",
    "complete": "a phase or a rank that is missing, or one too many",
}


def validate(path: str, expected: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """Judge the profiles at `path`: a `*_ascend_pt` directory, a tree of them, an ASCEND_PROFILER_OUTPUT,
    an archive.

    `expected` is what was asked for: {"level", "aic_metrics", "export": [...], "steps": {phase: count},
    "ranks": [...], "since": seconds since the epoch, "warmup": {phase: {"warmup_seconds", "step_seconds",
    "recompiles"}}}; what it leaves out is not held against the profile, but Level1 with PipeUtilization is.
    Without it, the expectations of a manifest.json beside the phases are taken.

    Returns {"path", "verdict", "profiles": [{"phase", "rank", "directory", "chip", "level", "metrics",
    "steps", "checks"}], "checks"}, where a check is {"id", "verdict", "message", "remedy", figures...} and
    its verdict pass, fail, warn, unproven or na. The verdict of the whole is "invalid" when a check fails,
    else "unproven" when one is, else "valid". Every file is read once, memory stays constant however large
    they are. Raises OSError when a file cannot be read.
    """
    checks: List[Dict[str, Any]] = []
    if os.path.isdir(path):
        profiles, manifest, differences = _from_directory(path)
        checks += [] if manifest is None else [_unchanged(differences)]
    else:
        try:
            profiles, manifest = _from_archive(path)
            checks.append(_check("archive", PASS, "whole, and as its manifest says" if manifest else "whole"))
        except ArchiveError as error:
            checks.append(_check("archive", FAIL, str(error), "pull or pack it again"))
            return _result(path, [], checks)
    try:
        asked = Expected.of(expected if expected is not None else _expected_of(manifest))
    except (AttributeError, TypeError, ValueError) as error:
        if expected is not None:
            raise
        checks.append(_check("manifest", FAIL, "what the manifest expects cannot be read: %s" % error, "pull it again"))
        asked = Expected()
    if not profiles:
        remedy = "point at a *_ascend_pt directory, a tree of them, or the archive"
        checks.append(_check("profiles-found", FAIL, "there is no profile in %s" % path, remedy))
        return _result(path, [], checks)
    checks.append(_check("profiles-found", PASS, "%d found" % len(profiles)))
    checks.append(_complete(profiles, asked))
    for facts in profiles:
        facts.asked = asked
    return _result(path, [_judge(facts) for facts in profiles], checks)


def _judge(facts: Facts) -> Dict[str, Any]:
    return {
        "phase": facts.phase,
        "rank": _rank(facts),
        "directory": facts.directory,
        "chip": facts.chip,
        "level": facts.info.level if facts.info else None,
        "metrics": facts.info.metrics if facts.info else None,
        "steps": list(facts.step_ids),
        "checks": [check.run(facts) for check in CHECKS.values()],
    }


def _result(path: str, profiles: List[Dict[str, Any]], checks: List[Dict[str, Any]]) -> Dict[str, Any]:
    verdicts = {check["verdict"] for part in profiles for check in part["checks"]}
    verdicts.update(check["verdict"] for check in checks)
    verdict = "invalid" if FAIL in verdicts else "unproven" if UNPROVEN in verdicts else "valid"
    return {"path": path, "verdict": verdict, "profiles": profiles, "checks": checks}


def _check(name: str, verdict: str, message: str, remedy: str = "", **figures: Any) -> Dict[str, Any]:
    return dict(id=name, verdict=verdict, message=message, remedy=remedy, **figures)


def _rank(facts: Facts) -> Optional[int]:
    if facts.info is None:
        return None
    return facts.info.rank if facts.info.rank is not None else facts.info.stated_rank


def _complete(profiles: List[Facts], expected: Expected) -> Dict[str, Any]:
    """Every (phase, rank) asked for, once. A profile without rank is rank 0, one without phase the only one
    asked for.
    """
    only = next(iter(expected.steps)) if len(expected.steps) == 1 else None
    found = [(facts.phase or only, _rank(facts) or 0) for facts in profiles]
    twice = sorted({pair for pair in found if found.count(pair) > 1}, key=str)
    if twice and expected.steps:
        return _check("complete", FAIL, "%s is there twice" % _name(twice[0]), "give every run a directory of its own")
    if not expected.steps and not expected.ranks:
        return _check("complete", NA, "nobody said which phases and ranks were wanted")
    phases = sorted(expected.steps) or sorted({str(phase) for phase, _ in found})
    wanted = [(phase, rank) for phase in phases for rank in expected.ranks or (0,)]
    missing = [pair for pair in wanted if pair not in found]
    if missing:
        return _check(
            "complete",
            FAIL,
            "%s is missing" % ", ".join(map(_name, missing)),
            "the log of that rank says why it wrote none",
            missing=[list(pair) for pair in missing],
        )
    beyond = [pair for pair in found if pair not in wanted]
    if beyond:
        return _check("complete", WARN, "%s was not asked for" % ", ".join(map(_name, beyond)), "")
    return _check("complete", PASS, "%d of %d profiles" % (len(wanted), len(wanted)))


def _name(pair: Tuple[Optional[str], int]) -> str:
    return "%s rank %d" % (pair[0] or "the profile of", pair[1])


def _expected_of(manifest: Optional[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    """What a manifest says was asked for, with the step times it recorded as the proof of the warm-up."""
    if not manifest or not isinstance(manifest.get("expected"), dict):
        return None
    return dict(manifest["expected"], warmup=manifest.get("phases"))


class _Profiles:
    """Facts of every profile below one root. `above` is the path from its names down to what was given."""

    def __init__(self, above: str = "") -> None:
        self._facts: Dict[str, Facts] = {}
        self._above = above

    def add(self, file: File) -> None:
        """`file.path` is relative to what was given; files that belong to no profile are left unread."""
        place = split(self._above + file.path)
        if place is None:
            return
        directory, path = place
        if directory not in self._facts:
            parent, name = os.path.split(directory)
            phase = os.path.basename(parent)
            given = directory[len(self._above) :] or "."
            self._facts[directory] = Facts(given, name, phase if phase in PHASES else None)
        observe(self._facts[directory], file._replace(path=path))

    def facts(self) -> List[Facts]:
        return [self._facts[directory] for directory in sorted(self._facts)]


def _from_archive(path: str) -> Tuple[List[Facts], Optional[Dict[str, Any]]]:
    profiles = _Profiles()

    def visit(entry: Entry) -> None:
        profiles.add(File(entry.name, entry.size, entry.mtime, entry.content))

    files, text = read_archive(path, visit=visit)
    manifest = None if text is None else parse_manifest(text)
    if manifest is not None:
        compare(files, manifest)
    return profiles.facts(), manifest


def _from_directory(path: str) -> Tuple[List[Facts], Optional[Dict[str, Any]], List[str]]:
    """Facts and manifest of a directory, and the files that are not what the manifest lists.

    Files are named as if the whole path above them had been given.
    """
    root = os.path.abspath(path)
    names = os.listdir(root)
    above = ""
    if os.path.basename(root) == OUTPUT:
        if any(INFO_NAME.match(name) for name in os.listdir(os.path.dirname(root))):
            return _from_directory(os.path.dirname(root))
        above = OUTPUT + "/"
    elif "kernel_details.csv" in names or "trace_view.json" in names:
        above = OUTPUT + "/"
    elif root.endswith("_ascend_pt"):
        above = "/".join(root.split(os.sep)[-2:]) + "/"
    manifest, start = _manifest_of(root)
    listed = {item["path"]: item["sha256"] for item in manifest["files"]} if manifest else {}
    profiles = _Profiles(above)
    for place, name, status in _files(root):
        if start + name not in listed and split(above + name) is None:
            continue
        with open(place, "rb", buffering=0) as raw:
            file = File(name, status.st_size, int(status.st_mtime), raw, place)
            if start + name not in listed:
                profiles.add(file)
                continue
            digesting = Digesting(raw)
            profiles.add(file._replace(raw=digesting))
            if digesting.finish() == listed[start + name]:
                del listed[start + name]
    return profiles.facts(), manifest, sorted(listed)


def _manifest_of(root: str) -> Tuple[Optional[Dict[str, Any]], str]:
    """The manifest in `root` or in the profile_l1 below it, with what precedes the names of `root` in its list."""
    for name, start in ((MANIFEST_NAME, ROOT + "/"), (MANIFEST, "")):
        try:
            with open(os.path.join(root, name), "rb") as file:
                return parse_manifest(file.read(MAX_MANIFEST)), start
        except (FileNotFoundError, ArchiveError):
            continue  # none, or one of another tool
    return None, ""


def _unchanged(differences: List[str]) -> Dict[str, Any]:
    if differences:
        message = "%s is gone, or not what the manifest lists" % differences[0]
        remedy = "take the archive; open copies in viewers"
        return _check("manifest", FAIL, message, remedy, different=differences[:100])
    return _check("manifest", PASS, "every file is what the manifest lists")


def _files(root: str) -> Iterator[Tuple[str, str, os.stat_result]]:
    """(place, path relative to `root`, status) of every regular file below `root`, in order; links are not
    followed.
    """
    for directory, directories, names in os.walk(root):
        directories.sort()
        for name in sorted(names):
            place = os.path.join(directory, name)
            status = os.lstat(place)
            if stat.S_ISREG(status.st_mode):
                yield place, os.path.relpath(place, root).replace(os.sep, "/"), status
