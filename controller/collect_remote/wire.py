"""What a host tells us, checked before it is used: names, sizes and claims are its own until proved otherwise. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collect_agent.rundir import ARCHIVE, PARTIAL

from .errors import ProfileInvalid, TransferError, one_line

LOG = "run.log"
BOX = ("name", "image")  # of a manifest's container, what is shown
PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")  # names that become directories


@dataclass(frozen=True, slots=True)
class Sent:
    """A file that the host announces. `size` in bytes."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A run as its host describes it (`collect_agent.listing`). Times in seconds; `silent_s`: since it was followed."""

    run: str
    state: str
    host: str | None
    model: str | None
    stage: str
    message: str
    seconds: int | None
    silent_s: int | None
    bytes: int
    processes: int
    orphan_s: float | None
    expected: Mapping[str, Any] | None


def listed_runs(told: Any) -> tuple[Listed, ...]:
    """The runs that a host lists. TransferError when they are not described as our agent does it."""
    try:
        runs = tuple(Listed(**{**entry, "message": one_line(str(entry["message"]))}) for entry in told)
        good = all(PLAIN.fullmatch(name) for run in runs for name in (run.run, run.model or "-", run.stage or "-"))
    except (KeyError, TypeError):
        good = False
    if not good:
        raise TransferError(
            f"the host describes its runs in words that are not ours: {one_line(repr(told))}",
            "see that no other program of this name writes there",
        )
    return runs


def sent_files(announced: Any, archive: str = ARCHIVE) -> tuple[Sent, ...]:
    """The files of a run that has ended: its archive and its log, once each. TransferError for anything else."""
    try:
        files = tuple(Sent(str(file["name"]), int(file["size"]), str(file["sha256"])) for file in announced)
        good = sorted(file.name for file in files) == sorted((archive, LOG)) and all(
            file.size >= 0 and re.fullmatch(r"[0-9a-f]{64}", file.sha256) for file in files
        )
    except (KeyError, TypeError, ValueError):
        good = False
    if not good:
        raise TransferError(
            f"the host announces files that are none of a run: {one_line(repr(announced))}",
            "do not trust this host before you know why",
        )
    return files


def checked_manifest(manifest: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a pulled archive, if it is the one of this run and says that the profile is good.

    `asked` is the document that the run was started with. TransferError for another run's or a malformed manifest,
    ProfileInvalid when the host sends what it does not call valid.
    """
    _require_this_run(manifest, asked)
    if manifest.get("verdict") != "valid":
        raise ProfileInvalid(
            f"the host sent a profile that it calls {one_line(repr(manifest.get('verdict')))}", "run the command again"
        )
    if not _is_whole(manifest, asked):
        raise TransferError("the archive's manifest lacks what a run writes into it", "run the command again")
    return dict(manifest)


def partial_manifest(manifest: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of what there is of a profile that is not valid, if it is of this run and says so."""
    _require_this_run(manifest, asked)
    if manifest.get("verdict") not in ("invalid", "unproven"):
        raise TransferError(f"the host sent a part of a profile as {PARTIAL} and calls it valid", "run it again")
    return dict(manifest)


def _require_this_run(manifest: Any, asked: Mapping[str, Any]) -> None:
    for key in ("run_id", "host", "model", "expected"):
        if manifest.get(key) != asked[key]:
            raise TransferError(
                f"the archive is not the one of this run: its {key} is {one_line(repr(manifest.get(key)))}",
                "run the command again; if it stays so, do not trust this host",
            )


def _is_whole(manifest: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    try:
        steps, ranks = asked["expected"]["steps"], asked["expected"]["ranks"]
        profiles = {(p["phase"], p["rank"] or 0) for p in manifest["profiles"] if p["checks"]}
        windows = [manifest["phases"][phase] for phase in steps]
        return (
            profiles == set(itertools.product(steps, ranks))
            and all(
                isinstance(device["label"], str) and isinstance(device["name"], str) for device in manifest["devices"]
            )
            and (manifest.get("container") is None or all(isinstance(manifest["container"][key], str) for key in BOX))
            and all(len(w["step_seconds"]) == len(w["step_kinds"]) and w["warmup_seconds"] for w in windows)
            and all(isinstance(manifest[key], kind) for key, kind in (("versions", dict), ("checks", list)))
        )
    except (KeyError, TypeError):
        return False


def log_lines(lines: Sequence[Any]) -> tuple[str, ...]:
    """The end of a host's log, fit for a terminal."""
    return tuple(one_line(str(line)) for line in lines[-30:])
