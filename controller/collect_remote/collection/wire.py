"""What a host tells us, checked before it is used: names, sizes and claims are its own until proved otherwise. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collect_agent.events import Event
from collect_agent.run.rundir import ARCHIVE, PARTIAL

from ..errors import ProfileInvalid, TransferError, one_line
from ..shape import ANY_NAME, Maybe, Null, TooDeep, count, misfit, parsed

LOG = "run.log"
LONGEST_STAGE = 40
PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")  # names that become directories
_PLAIN_OR_NONE = re.compile(f"(?:{PLAIN.pattern})?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TEXT = Maybe(str)
_STEP = {"window": str, "kind": str, "step": count, "of": count, "seconds": float, "recompiles": Maybe(count)}
_FILE = {"name": str, "size": count, "sha256": _SHA256}
_ERROR = {"kind": str, "message": str, "remedy": str}
# What the agent says, by its stage: events of a run, and the answers of commands. Others have no fields for us.
EVENTS: dict[str, dict[str, Any]] = {
    "wait": {"reasons": [str], "left_s": float},
    "lease": {"devices": [{"label": str}]},
    "meet": {"number": count, "port": Maybe(count)},
    "import": {"versions": Maybe({ANY_NAME: _TEXT}), "device": Maybe(dict)},
    "warmup": _STEP,
    "profile": _STEP,
    "parse": {"window": _TEXT, "seconds": Maybe(float)},
    "recorded": {"window": _TEXT, "died": _TEXT},
    "harvest": {"parse": _TEXT, "where": _TEXT, "seconds": Maybe(float)},
    "pack": {"bytes": Maybe(count), "of": Maybe(count)},
    "check": {"files": Maybe([dict])},
    "end": {"status": str, "directory": _TEXT, "files": Maybe([dict]), "error": Maybe(_ERROR), "log": Maybe([str])},
    "stop": {"left": [count]},
    "clean": {"removed": [str], "kept": {ANY_NAME: str}, "freed": count},
    "runs": {"runs": [dict]},
    "send": {"offset": count, "files": [dict]},
}
_FAILED = {"error": _ERROR, "log": [str]}  # of an end that is not good
_WHOSE = "see that no other program of this name writes there, and bring both sides to one release"
_LISTED = {
    "run": PLAIN,
    "state": str,
    "host": _TEXT,
    "model": Maybe(PLAIN),
    "stage": _PLAIN_OR_NONE,
    "message": str,
    **dict.fromkeys(("seconds", "silent_s", "orphan_s"), Maybe(float)),
    "bytes": count,
    "processes": count,
    "expected": Maybe({"steps": {PLAIN: Null(count)}, "ranks": [count]}),
    "node": Maybe({"rank": count, "count": count}),
}


def _shown(value: Any) -> bool:
    """Of what is kept as it was and shown: text without a control character."""
    return isinstance(value, str) and value.isprintable()


_MANIFEST = {
    "profiles": [{"phase": _shown, "rank": Maybe(count), "directory": _shown, "checks": [dict]}],
    "checks": [dict],
    "phases": {PLAIN: {"step_seconds": [float], "step_kinds": [_shown], "warmup_seconds": [float]}},
    "devices": [{"label": _shown, "name": _shown}],
    "container": Maybe({"name": _shown, "image": _shown}),
    "visible_devices": _TEXT,
    "versions": {"torch_npu": _shown},
}


@dataclass(frozen=True, slots=True)
class Sent:
    """A file that the host announces. `size` in bytes."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A run as its host describes it (`collect_agent.run.listing`). Times in seconds.

    silent_s: since it was followed. node: its host's place among those of a job.
    """

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
    node: Mapping[str, Any] | None = None


def event(text: str) -> Event | None:
    """A marked line of the agent with the fields of its stage and no others; None when it is none.

    TransferError when it has another form than our agent gives it.
    """
    try:
        told = parsed(text)
    except TooDeep as error:
        raise TransferError(f"the host tells something that is not ours: {error}", _WHOSE) from error
    except ValueError:
        return None
    if not isinstance(told, dict) or not isinstance(told.get("stage"), str):
        return None
    shape = {"seq": Maybe(count), "time": Maybe(float), **EVENTS.get(told["stage"], {})}
    failed = _FAILED if told["stage"] == "end" and told.get("status") != "done" else {}
    where = misfit(told, {**shape, **failed})
    if where is not None:
        raise TransferError(f"the host tells of {told['stage']!r} in words that are not ours: its {where}", _WHOSE)
    fields = {name: told[name] for name in shape if told.get(name) is not None}
    if "error" in fields:
        fields["error"] = {**fields["error"], "entry": _entry(fields["error"].get("entry"))}
    return {"stage": one_line(told["stage"], LONGEST_STAGE), **fields}


def _entry(told: Any) -> str:
    """The entry of docs/troubleshooting.md that a host names, if it is one of those that our agent names."""
    from .host_entries import HOST_ENTRIES  # only errors need all of the tables

    return told if isinstance(told, str) and told in HOST_ENTRIES else ""


def listed_runs(told: Any) -> tuple[Listed, ...]:
    """The runs that a host lists. TransferError when they are not described as our agent does it."""
    where = misfit(told, [_LISTED])
    if where is not None:
        raise TransferError(
            f"the host describes its runs in words that are not ours: {one_line(where)} of {one_line(repr(told))}",
            _WHOSE,
        )
    return tuple(_listed(entry) for entry in told)


def _listed(told: Mapping[str, Any]) -> Listed:
    """The host's clock may have been set meanwhile: nothing is younger than now."""
    fields: dict[str, Any] = {key: told.get(key) for key in _LISTED}
    for key in ("seconds", "silent_s"):
        fields[key] = None if fields[key] is None else max(0, round(fields[key]))
    return Listed(**{**fields, "message": one_line(told["message"])})


def sent_files(announced: Any, archive: str = ARCHIVE, *, ended: bool = True) -> tuple[Sent, ...]:
    """The files of a run: its archive, then its log when it has ended. TransferError for anything else."""
    possible = [[archive, LOG]] if ended else [[archive], [archive, LOG]]
    if misfit(announced, [_FILE]) is not None or [file["name"] for file in announced] not in possible:
        raise TransferError(
            f"the host announces files that are none of a run: {one_line(repr(announced))}",
            "do not trust this host before you know why",
        )
    return tuple(Sent(file["name"], file["size"], file["sha256"]) for file in announced)


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
    if not isinstance(manifest, dict):
        raise TransferError("the archive's manifest is none", "run the command again; if it stays so, do not trust it")
    for key in ("run_id", "host", "model", "expected"):
        if manifest.get(key) != asked[key]:
            raise TransferError(
                f"the archive is not the one of this run: its {key} is {one_line(repr(manifest.get(key)))}",
                "run the command again; if it stays so, do not trust this host",
            )


def _is_whole(manifest: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    if misfit(manifest, _MANIFEST) is not None:
        return False
    steps, windows = asked["expected"]["steps"], manifest["phases"]
    profiles = sorted((profile["phase"], profile.get("rank") or 0) for profile in manifest["profiles"])
    return (
        profiles == sorted(itertools.product(steps, asked["expected"]["ranks"]))
        and all(profile["checks"] for profile in manifest["profiles"])
        and set(steps) <= set(windows)
        and all(len(w["step_seconds"]) == len(w["step_kinds"]) for w in windows.values())
        and all(windows[phase]["warmup_seconds"] for phase in steps)
    )


def log_lines(lines: Sequence[Any]) -> tuple[str, ...]:
    """The end of a host's log, fit for a terminal."""
    return tuple(one_line(str(line)) for line in lines[-30:])
