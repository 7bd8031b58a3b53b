"""Is this profile good? One answer on the host, for a pulled archive, and for whatever someone points at.

Never decided by an exit status, a done-mark, a log line or a number of columns: torch_npu swallows its
exceptions, exits 0 and prints success after parses that failed. Decided by what the files hold, and by
their agreement.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from ..output.archive import ROOT
from ..output.tarstream import ArchiveError
from . import configuration, invariants, steps, warmup  # noqa: F401 - each enters its checks, in this order
from .facts import Expected, Facts
from .messages import MESSAGES, explain
from .registry import CHECKS, FAIL, PASS, UNPROVEN
from .sources import from_archive, from_directory
from .whole import TREE_CHECKS, complete, outcome, unchanged

__all__ = ["CHECKS", "MESSAGES", "TREE_CHECKS", "explain", "validate", "with_checks"]


def validate(path: str, expected: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """Judge the profiles at `path`: a `*_ascend_pt` directory, a tree of them, an ASCEND_PROFILER_OUTPUT, an archive,
    or a directory that holds profile_l1.tar.gz.

    `expected` is what was asked for: {"level", "aic_metrics", "export": [...], "steps": {phase: count},
    "ranks": [...], "since": seconds since the epoch, "warmup": {phase: {"warmup_seconds", "step_seconds",
    "recompiles"}}, "hosts": how many recorded it}; what it leaves out is not held against the profile, but Level1 with
    PipeUtilization is. Without it, the expectations of a manifest.json beside the phases are taken.

    Returns {"path", "verdict", "profiles": [{"phase", "rank", "directory", "chip", "level", "metrics",
    "steps", "checks"}], "checks"}, where a check is {"id", "verdict", "message", "remedy", figures...} and
    its verdict pass, fail, warn, unproven or na. The verdict of the whole is "invalid" when a check fails,
    else "unproven" when one is, else "valid". Every file is read once, memory stays constant however large
    they are. Raises OSError when a file cannot be read.
    """
    checks: List[Dict[str, Any]] = []
    packed = os.path.join(path, ROOT + ".tar.gz")
    if os.path.isdir(path) and not os.path.isfile(packed):
        profiles, manifest, differences = from_directory(path)
        checks += [] if manifest is None else [unchanged(differences)]
    else:
        try:
            profiles, manifest = from_archive(packed if os.path.isdir(path) else path)
            checks.append(outcome("archive", PASS, "whole, and as its manifest says" if manifest else "whole"))
        except ArchiveError as error:
            return _result(path, [], [outcome("archive", FAIL, str(error))])
    try:
        asked = Expected.of(expected if expected is not None else _expected_of(manifest))
    except (AttributeError, TypeError, ValueError) as error:
        if expected is not None:
            raise
        checks.append(outcome("manifest", FAIL, "what the manifest expects cannot be read: %s" % error))
        asked = Expected()
    if not profiles:
        return _result(path, [], [*checks, outcome("profiles-found", FAIL, "there is no profile in %s" % path)])
    checks.append(outcome("profiles-found", PASS, "%d found" % len(profiles)))
    checks.append(complete(profiles, asked))
    for facts in profiles:
        facts.asked = asked
    return _result(path, [_judge(facts) for facts in profiles], checks)


def with_checks(result: Dict[str, Any], more: List[Dict[str, Any]]) -> Dict[str, Any]:
    """What `validate` returned, with `more` checks of the whole: the verdict is of all of them. Pure."""
    return _result(result["path"], result["profiles"], [*result["checks"], *more])


def _judge(facts: Facts) -> Dict[str, Any]:
    return {
        "phase": facts.phase,
        "rank": facts.rank,
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


def _expected_of(manifest: Optional[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    """What a manifest says was asked for, with the step times it recorded as the proof of the warm-up."""
    if not manifest or not isinstance(manifest.get("expected"), dict):
        return None
    nodes = manifest.get("nodes")
    hosts = len(nodes) if isinstance(nodes, list) else None
    return dict(manifest["expected"], warmup=manifest.get("phases"), hosts=hosts)
