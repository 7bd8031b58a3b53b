"""The results of the hosts of one job as one: one tree of profiles, judged as a whole, one manifest, one archive."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collect_agent.output import archive, pack
from collect_agent.output.archive import ROOT
from collect_agent.output.tarstream import ArchiveError
from collect_agent.run.rundir import ARCHIVE
from collect_agent.validate import TREE_CHECKS, validate, with_checks
from collect_agent.validate.registry import FAIL, UNPROVEN

from ..collection.bring import Brought
from ..collection.session import Log
from ..collection.wire import LOG, Sent
from ..errors import ProfileInvalid, StorageError, TransferError, one_line, storage_error
from ..shape import ANY_NAME, Maybe, Null, count, misfit

TREE = "tree"  # below the growing result: the profiles of all hosts

_STEPS = {
    **{name: [float] for name in ("warmup_seconds", "step_seconds")},
    **{name: [str] for name in ("warmup_kinds", "step_kinds")},
    "recompiles": Null(count),
}
_SHAPE = {
    "run_id": str,
    "notes": [str],
    "stages": [{"stage": str, "started": float}],
    "checks": [{"id": str, "verdict": str, "message": str}],
    "proof": {"presence": [dict], "ranks": Maybe([{"rank": count}])},
    "phases": {ANY_NAME: {**_STEPS, "ranks": Maybe({ANY_NAME: _STEPS})}},
    "versions": dict,
}  # of a part's manifest, besides what `wire` has seen to


@dataclass(frozen=True, slots=True)
class Part:
    """What one host has recorded: `directory` has its archive and its log, verified."""

    host: str
    directory: Path
    manifest: Mapping[str, Any]


def merge(parts: Sequence[Part], directory: Path, log: Log) -> Brought:
    """Make archive and log of the whole job in `directory`, out of the parts below it, in the order of their ranks.

    ProfileInvalid when the parts do not make a valid whole, StorageError when there is no room here.
    """
    for part in parts:
        _require_form(part)
    try:
        for part in parts:
            _move(part, directory / TREE)
        log(stage="validate")
        manifest = merged([(part.host, part.manifest) for part in parts])
        verdict = _judged(parts, manifest, directory / TREE)
        log(stage="pack")
        target = directory / ARCHIVE
        packed = pack.pack(
            pack.tree(str(directory / TREE), ROOT),
            str(target),
            manifest=lambda files: {**manifest, **verdict, "files": files},
            on_progress=lambda done, of: log(stage="pack", bytes=done, of=of),
        )
        log(stage="check")
        archive.read_back(str(target), packed)
        _join_logs(parts, directory / LOG)
        size, sha256 = archive.digest_file(str(directory / LOG))
        for done in (directory / TREE, *(part.directory for part in parts)):
            shutil.rmtree(done)
    except OSError as error:
        raise storage_error(directory, error) from error
    except (ArchiveError, pack.PackError) as error:
        raise StorageError(f"the result of all hosts could not be packed: {error}", "see to the disk here") from error
    files = (Sent(ARCHIVE, packed["size"], packed["sha256"]), Sent(LOG, size, sha256))
    return Brought({**manifest, **verdict, "files": packed["files"]}, files)


def _require_form(part: Part) -> None:
    """TransferError when a manifest has not what is used of it here."""
    where = misfit(part.manifest, _SHAPE)
    if where is not None:
        raise TransferError(
            f"the manifest of {part.host} is not as our agent writes it: its {one_line(where)}", "run the command again"
        )


def merged(parts: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """The manifest of the job, of those of its hosts by name in the order of their ranks; not its verdict. Pure.

    What is of one host is the first one's, and that of every host stands in `nodes`.
    """
    host, first = parts[0]
    return {
        **{name: value for name, value in first.items() if name not in ("verdict", "checks", "profiles", "files")},
        "host": host,
        "notes": list(dict.fromkeys(note for _, manifest in parts for note in manifest["notes"])),
        "expected": {**first["expected"], "ranks": [rank for _, one in parts for rank in one["expected"]["ranks"]]},
        "devices": [{**device, "host": name} for name, manifest in parts for device in manifest["devices"]],
        "proof": _proof(parts),
        "phases": {phase: _steps(phase, [manifest for _, manifest in parts]) for phase in first["phases"]},
        "nodes": [_node(name, manifest) for name, manifest in parts],
    }


def _node(host: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    own = ("run_id", "visible_devices", "container", "versions", "stages")
    return {"host": host, "ranks": manifest["expected"]["ranks"], **{name: manifest[name] for name in own}}


def _proof(parts: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """That of the first rank, the others' under `ranks`, and what was seen on every host."""
    ranks = []
    for _, manifest in parts:
        others = manifest["proof"].get("ranks", [])
        lead = {name: value for name, value in manifest["proof"].items() if name not in ("presence", "ranks")}
        ranks += [{**lead, "rank": manifest["expected"]["ranks"][0]}, *others]
    seen = [{**look, "host": host} for host, manifest in parts for look in manifest["proof"]["presence"]]
    return {**parts[0][1]["proof"], "presence": seen, "ranks": ranks[1:]}


def _steps(phase: str, manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The first rank's steps in a phase, those of the others under `ranks`."""
    found: dict[str, Any] = {}
    for manifest in manifests:
        window = manifest["phases"][phase]
        lead = {name: value for name, value in window.items() if name != "ranks"}
        found |= {str(manifest["expected"]["ranks"][0]): lead, **window.get("ranks", {})}
    (_, steps), *others = found.items()
    counts = [steps["recompiles"] for steps in found.values()]
    most = None if None in counts else max(counts)
    return {**steps, "recompiles": most, "ranks": dict(others)}


def _move(part: Part, tree: Path) -> None:
    """The profiles of a part into the tree of all, under the names that torch_npu gave them."""
    unpacked = part.directory / "unpacked"
    archive.extract(str(part.directory / ARCHIVE), str(unpacked))
    (part.directory / ARCHIVE).unlink()  # the host has it, until the whole is published
    for phase in part.manifest["expected"]["steps"]:
        (tree / phase).mkdir(parents=True, exist_ok=True)
        for source in sorted((unpacked / ROOT / phase).iterdir()):
            if (tree / phase / source.name).exists():
                raise TransferError(
                    f"two hosts of the job have a profile called {phase}/{source.name}",
                    "give the hosts, or their containers, names of their own: torch_npu names its directories by them",
                )
            source.rename(tree / phase / source.name)


def _judged(parts: Sequence[Part], manifest: Mapping[str, Any], tree: Path) -> dict[str, Any]:
    """Verdict, checks and profiles of the whole. ProfileInvalid when it is not valid."""
    began = [stage["started"] for part in parts for stage in part.manifest["stages"] if stage["stage"] == "lease"]
    expected = {**manifest["expected"], "warmup": manifest["phases"], "hosts": len(parts)}
    verdict = validate(str(tree), {**expected, "since": min(began, default=None)})
    verdict = with_checks(verdict, [check for part in parts for check in _of_host(part)])
    for check in [*verdict["checks"], *(check for profile in verdict["profiles"] for check in profile["checks"])]:
        if check["verdict"] in (FAIL, UNPROVEN):
            raise ProfileInvalid(
                f"the profile of all hosts together is not valid: {check['message']}",
                check["remedy"],
                entry=check["id"],
            )
    parsed = {profile["directory"]: profile.get("parsed") for part in parts for profile in part.manifest["profiles"]}
    profiles = [{**profile, "parsed": parsed.get(profile["directory"])} for profile in verdict["profiles"]]
    return {"verdict": verdict["verdict"], "checks": verdict["checks"], "profiles": profiles}


def _of_host(part: Part) -> list[dict[str, Any]]:
    """What was looked at on the host alone: who was on its devices, how its profiles were parsed."""
    return [
        {**check, "message": f"{part.host}: {check['message']}"}
        for check in part.manifest["checks"]
        if check["id"] not in TREE_CHECKS
    ]


def _join_logs(parts: Sequence[Part], target: Path) -> None:
    with target.open("xb") as out:
        for part in parts:
            out.write(f"--- {part.host}, run {part.manifest['run_id']}\n".encode())
            out.write((part.directory / LOG).read_bytes())
