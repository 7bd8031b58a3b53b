"""From what the program has left to what is sent: found, judged, packed, and read back."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, NamedTuple

from .. import cpus, events, troubles, validate
from ..failure import Failure
from ..npu import presence
from ..output import archive, elsewhere, harvest, manifest, pack, tarstream
from . import remains, runlog
from .rundir import RunDir


class Recorded(NamedTuple):
    """What is known of a program that has ended: its environment, when it was started (epoch seconds), who was `seen`
    on its devices, and the reports of the ranks besides the first.
    """

    environment: Dict[str, str]
    since: float
    seen: List[Dict[str, Any]]
    ranks: Dict[int, List[events.Event]]


def make(run: RunDir, plan: Dict[str, Any], journal: events.Journal, recorded: Recorded) -> Dict[str, Any]:
    """Pack what the run has recorded: the fields of its `end`. Failure when it is not valid, unless it is salvaged."""
    harvested = _harvested(run, plan, journal, recorded)
    journal.write(stage="validate")
    phases = manifest.phases(journal.events, recorded.ranks)
    verdict = validate.validate(run.profile, dict(plan["expected"], since=recorded.since, warmup=phases))
    shared = presence.check(recorded.seen, allow_shared=plan["allow_shared"], leased=plan["leased"])
    verdict = validate.with_checks(verdict, [shared, harvest.check(harvested)])
    complaints = _complaints(verdict)
    failure = Failure(
        "ProfileInvalid",
        "the profile is not valid: " + "; ".join(check["message"] for check in complaints),
        "; ".join(check["remedy"] for check in complaints[:1]) + remains.kept(run),
        "".join(check["id"] for check in complaints[:1]),
    )
    if complaints and not plan["salvage"]:
        raise failure

    journal.write(stage="pack")
    proof = manifest.proof(journal.events, recorded.seen)
    target = run.partial if complaints else run.archive
    packed = pack.pack(
        harvest.members(harvested, plan["keep_raw"]),
        target,
        manifest=lambda files: manifest.document(
            run, plan, journal.events, proof, phases, verdict, harvested.parsed, files
        ),
        level=pack.level_for(cpus.count(), plan["link_bytes_s"]),
        on_progress=_Pace(journal, "pack"),
    )
    entry = {"name": os.path.basename(target), "size": packed["size"], "sha256": packed["sha256"]}
    journal.write(stage="check", **({} if complaints else {"files": [entry]}))  # it may be fetched meanwhile
    _read_back(target, packed)
    log_size, log_sha256 = archive.digest_file(run.log)
    return {
        **({"status": "failed", "error": failure.to_json()} if complaints else {}),
        "files": [entry, {"name": os.path.basename(run.log), "size": log_size, "sha256": log_sha256}],
    }


def _harvested(run: RunDir, plan: Dict[str, Any], journal: events.Journal, recorded: Recorded) -> harvest.Harvest:
    journal.write(stage="harvest")
    runlog.restore(run)
    runlog.cut(run)
    try:
        found = harvest.harvest(run, plan, recorded.environment, emit=journal.write)
    finally:
        elsewhere.remove_copies(run)
    runlog.tidy(run)
    return found


def _read_back(target: str, packed: Dict[str, Any]) -> None:
    try:
        archive.read_back(target, packed)
    except tarstream.ArchiveError as error:
        raise troubles.NOT_READ_BACK(what=error, path=target) from error


def _complaints(verdict: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Every check that did not pass, its phase before its message, those of the whole first."""
    groups = [("", verdict["checks"])] + [(p["phase"] + ": ", p["checks"]) for p in verdict["profiles"]]
    return [
        dict(check, message=phase + check["message"])
        for phase, checks in groups
        for check in checks
        if check["verdict"] in ("fail", "unproven")
    ]


class _Pace:
    """Progress of a stage as events, a few a second at most."""

    def __init__(self, journal: events.Journal, stage: str, interval_s: float = 0.25) -> None:
        self._journal, self._stage, self._interval = journal, stage, interval_s
        self._last = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done == total or now - self._last >= self._interval:
            self._last = now
            self._journal.write(stage=self._stage, bytes=done, of=total)
