"""Published results without a host: profiles of `profiles.py`, judged, packed and described by the code of a run."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import profiles
from collect_agent.npu import presence
from collect_agent.npu.acquire import described
from collect_agent.npu.device import Device, Process
from collect_agent.output import harvest, manifest
from collect_agent.output.archive import check_archive
from collect_agent.output.pack import pack
from collect_agent.run.rundir import ARCHIVE, RunDir
from collect_agent.template import windows
from collect_agent.validate import validate, with_checks
from collect_remote.inventory import ModelSpec
from collect_remote.request import Request, window
from collect_remote.routes import template

MODEL = ModelSpec("llama", "llama", None, {})
RUN = "20261129_104205_5f0c1e"
FREE, TOTAL = 60 << 30, 64 << 30
VERSIONS = {
    "collect_remote": "0.1.0",
    "agent": "collect_agent-0.pyz",
    "cann": "8.5.0",
    "transformers": None,
    "diffusers": None,
}


def publish(
    parent: Path,
    *,
    phase: str = "decode",
    ranks: int = 1,
    run: str = RUN,
    host: str = "ascend01",
    nodes: tuple[str, ...] = (),
    **profile: Any,
) -> Path:
    """Make a result below `parent`; its directory, named like the run. `profile`: fields of `profiles.Profile`.

    With `nodes` it is what the run of `host` brings, as one of theirs.
    """
    request = Request(host=host, model="llama", phase=phase, device_count=ranks, nodes=nodes)
    plan = template.plan(request, window(request, MODEL), MODEL)
    rundir = RunDir(str(parent / run))
    started = time.time()
    found = _write(rundir, plan.expected, started, profile)
    devices = [Device(npu=3, chip=rank, logic=6 + rank, name="910B3", bus_id="0000:C1:00.0") for rank in range(ranks)]
    lead, *others = request.profiled_ranks
    told = [_events(request, started, rank, devices) for rank in (lead, *others)]
    phases = manifest.phases(told[0], dict(zip(others, told[1:], strict=True)))
    events = told[0] + [event for other in told[1:] for event in other if event["stage"] == "import"]
    moments = [_moment(when, devices, lead) for when in ("loaded", "recorded")]
    seen = presence.tell(moments, [described(device) for device in devices])
    parsed = {
        os.path.basename(path): {"how": "online", "where": path, "tried": []}
        for paths in found.values()
        for path in paths
    }
    verdict = validate(rundir.profile, {**plan.expected, "since": started, "warmup": phases})
    verdict = with_checks(verdict, [presence.check(seen, allow_shared=False)])
    asked = {name: value for name, value in dataclasses.asdict(request).items() if name != "out"}
    document = {
        "host": host,
        "model": "llama",
        "route": plan.route,
        "notes": [],
        "request": asked,
        "expected": plan.expected,
        "visible_devices": None,
        "container": None,
        "versions": VERSIONS,
    }
    packed = pack(
        harvest.members(harvest.Harvest(found, parsed), keep_raw=False),
        rundir.archive,
        manifest=lambda files: manifest.document(
            rundir, document, events, manifest.proof(events, seen), phases, verdict, parsed, files
        ),
    )
    shutil.rmtree(rundir.profile)
    beside = check_archive(rundir.archive)["manifest"]
    beside["archive"] = {"name": ARCHIVE, "size": packed["size"], "sha256": packed["sha256"]}
    (parent / run / "manifest.json").write_text(json.dumps(beside))
    return parent / run


def made(directory: Path, files: dict[str, bytes], **changes: Any) -> Path:
    """A result with these files in ASCEND_PROFILER_OUTPUT, and as much of a manifest as reading them takes.

    `changes` are fields of the manifest.
    """
    directory.mkdir(exist_ok=True)
    listed = {"phase": "decode", "rank": None, "directory": "decode/ascend01_4711_20260101000000000_ascend_pt"}

    def document(packed: list[dict[str, Any]]) -> dict[str, Any]:
        return {"format": manifest.FORMAT, "verdict": "valid", "profiles": [listed], "files": packed, **changes}

    archive = directory / ARCHIVE
    start = f"profile_l1/{listed['directory']}/ASCEND_PROFILER_OUTPUT/"
    packed = pack([(start + name, data) for name, data in files.items()], str(archive), manifest=document)
    beside = {**document(packed["files"]), "archive": {"size": packed["size"]}}
    (directory / "manifest.json").write_text(json.dumps(beside))
    return directory


def _write(run: RunDir, expected: Any, started: float, changes: dict[str, Any]) -> dict[str, list[str]]:
    """{phase: the directories of its profiles}, each with the steps that are expected."""
    several = expected["ranks"] != [0]
    return {
        phase: [
            str(
                profiles.write(
                    Path(run.profile, phase),
                    **{"steps": steps, "rank": rank if several else None, "started": started + 1, **changes},
                )
            )
            for rank in expected["ranks"]
        ]
        for phase, steps in expected["steps"].items()
    }


def _events(request: Request, started: float, rank: int, devices: list[Device]) -> list[dict[str, Any]]:
    """What the program of one rank reports, with the supervisor's own at its ends."""
    whose = {} if rank == request.profiled_ranks[0] else {"rank": rank}
    device = {"count": len(devices), "name": "Ascend910B3", "memory_free_bytes": FREE, "memory_total_bytes": TOTAL}
    versions = {"torch": "2.9.0+cpu", "torch_npu": "2.9.0"}
    events: list[dict[str, Any]] = [
        {"stage": "lease", "devices": [described(device) for device in devices]},
        {"stage": "import", "versions": versions, "device": {**device, "pid": 4711 + rank}},
    ]
    for name, kinds in windows(request.phase or "", request.steps or 10, request.warmup_steps).items():
        events += [{"stage": "warmup", "window": name, "kind": kinds[0], "seconds": 0.013}] * request.warmup_steps
        events += [
            {"stage": "profile", "window": name, "kind": kind, "seconds": 0.012, "recompiles": 0} for kind in kinds
        ]
    times = (started + number / 100 for number in range(len(events) + 1))
    return [{**event, **whose, "time": when} for event, when in zip([*events, {"stage": "pack"}], times, strict=True)]


def _moment(when: str, devices: list[Device], lead: int) -> presence.Moment:
    own = [Process(pid=4711 + lead + number, name="python", memory_mb=4000) for number in range(len(devices))]
    seen = [dataclasses.replace(device, processes=(process,)) for device, process in zip(devices, own, strict=True)]
    return {"when": when, "own": {process.pid for process in own}, "in_container": False, "devices": seen}
