"""Results as text for a person and as plain data for `--json`. Pure."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..columns import aligned
from ..routes.plan import DRIVE, Plan
from .progress import preset

if TYPE_CHECKING:
    from ..collection.manage import Cleaned
    from ..collection.pipeline import Preview
    from ..collection.run import Run
    from ..collection.wire import Listed
    from ..results.profile import Profile

UNSHOWN = ("npu", "environment")  # of a host's facts: too long, and with secrets
UNTIL = {"exit": "it ends by itself", "recorded": "everything is recorded"}
FOLLOWED_S = 15  # whoever follows says so every five seconds


def result_document(result: Profile) -> dict[str, Any]:
    manifest = result.manifest
    keys = ("run_id", "host", "container", "model", "route", "devices", "visible_devices", "versions", "phases")
    return {
        "directory": str(result.directory),
        "archive": {"path": str(result.archive), **manifest["archive"]},
        **{key: manifest.get(key) for key in (*keys, "stages", "verdict")},
        **({"nodes": manifest["nodes"]} if "nodes" in manifest else {}),
    }


def result_text(result: Profile) -> str:
    manifest = result.manifest
    checks = sum(len(profile["checks"]) for profile in manifest["profiles"]) + len(manifest["checks"])
    size = manifest["archive"]["size"]
    lines = [f"{result.archive}  {size / 1e6:.1f} MB, {manifest['verdict']} ({checks} checks)"]
    for node in manifest.get("nodes", [manifest]):
        own = [device for device in manifest["devices"] if device.get("host", node["host"]) == node["host"]]
        devices = ", ".join(f"{device['label']} {device['name']}" for device in own) or "devices of the job"
        lines.append(f"  on {_place(node)}, {devices}, torch_npu {node['versions']['torch_npu']}")
        if node["visible_devices"] is not None:
            lines.append(f"  {preset(node['visible_devices'], node.get('container'))}")
    lines += [f"  {phase}: {_steps(window)}" for phase, window in manifest["phases"].items()]
    return "\n".join(lines) + "\n"


def _place(manifest: dict[str, Any]) -> str:
    container = manifest.get("container")
    return str(manifest["host"]) + (
        f" in the container {container['name']} ({container['image']})" if container else ""
    )


def _steps(window: dict[str, Any]) -> str:
    import statistics  # slow to import, and only a person reads this

    parts = []
    for kind in dict.fromkeys(window["step_kinds"]):
        seconds = [s for s, k in zip(window["step_seconds"], window["step_kinds"], strict=True) if k == kind]
        median = statistics.median(seconds) * 1e3
        parts.append(f"{len(seconds)} {kind} step{'s' * (len(seconds) > 1)}, median {median:.2f} ms")
    return "; ".join(parts) + f"; {len(window['warmup_seconds'])} warm-up steps outside the window"


def preview_document(preview: Preview) -> dict[str, Any]:
    return {
        "devices": [dataclasses.asdict(device) for device in preview.devices],
        "plan": dataclasses.asdict(preview.plan),
        "agent": {"name": preview.agent, "upload": not preview.facts.agent_present},
        "facts": {key: value for key, value in dataclasses.asdict(preview.facts).items() if key not in UNSHOWN},
    }


def preview_text(preview: Preview) -> str:
    plan, facts = preview.plan, preview.facts
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items() if version)
    lines = [
        *_node_lines(preview),
        *([f"container {facts.container}"] if facts.container else []),
        *(f"device    {device.label} {device.name}" for device in preview.devices),
        *([] if facts.visible_devices is None else [f"          {preset(facts.visible_devices, facts.box_document)}"]),
        f"python    {facts.python} ({versions}): {facts.python_why}",
        f"setup     {', '.join(facts.setup) or 'none found'}",
        f"workdir   {facts.workdir}, {facts.free_bytes / 2**30:.1f} GiB free",
        f"agent     {preview.agent}, {'there already' if facts.agent_present else 'to be uploaded'}",
        *_route_lines(plan),
        f"expected  {plan.expected['level']} {plan.expected['aic_metrics']}, steps {plan.expected['steps']}",
    ]
    for name, text in plan.files.items():
        if name == DRIVE:  # as lines above
            continue
        lines += [f"file      {name}", *(f"    {line}" for line in text.splitlines())]
    return "\n".join(lines) + "\n"


def previews_document(previews: Sequence[Preview]) -> dict[str, Any]:
    """Of a job on several hosts."""
    return {"nodes": [{"host": one.host, "node": one.node, **preview_document(one)} for one in previews]}


def previews_text(previews: Sequence[Preview]) -> str:
    return "\n".join(map(preview_text, previews))


def _node_lines(preview: Preview) -> Iterator[str]:
    if preview.node is not None:
        place, ranks = preview.node, ", ".join(map(str, preview.plan.expected["ranks"]))
        port = place["master_port"] or "a port that is free there"
        yield f"node      {place['rank']} of {place['count']}, {preview.host}: ranks {ranks}"
        yield f"          master {place['master_addr']}, {port}"


def _route_lines(plan: Plan) -> Iterator[str]:
    yield f"route     {plan.route}: {'; '.join(plan.evidence) or shlex.join(plan.argv)}"
    if plan.launch is not None:
        launch = plan.launch
        yield f"command   {shlex.join(launch.argv) or 'none: it runs already'}"
        yield f"          in {launch.cwd}, until {UNTIL[launch.stop]}"
        yield from (f"env       {name}={value}" for name, value in launch.env.items())
        for phase, schedule in ((launch.shim or {}).get("windows") or {}).items():
            steps = ", ".join(f"{name} {count}" for name, count in (schedule or {}).items())
            yield f"window    {phase}: {steps or 'from its own start to its own stop'}"
        yield from (f"then      {_action(action)}" for action in launch.trigger)
    yield from (f"note      {note}" for note in plan.notes)


def _action(action: Mapping[str, Any]) -> str:
    """One step of a conversation with a server."""
    return " ".join(str(value) if name == "do" else f"{name}={value}" for name, value in action.items())


def started_document(run: Run) -> dict[str, Any]:
    return {"run_id": run.id, "host": run.remote.host.name, "directory": run.directory}


def started_text(run: Run) -> str:
    return f"{run.id}\n  is going on: {run.how_to_go_on}\n"


def stopped_text(was: Listed) -> str:
    if was.state == "running":
        return f"run {was.run} was stopped, nothing of it is left and its device is free\n"
    return f"run {was.run} had ended already ({was.state}), and nothing of it is left\n"


def cleaned_text(done: Cleaned) -> str:
    lines = [
        f"removed {len(done.removed)} run{'s' * (len(done.removed) != 1)}, {done.freed / 1e6:.1f} MB are free again"
    ]
    lines += [f"  {run}" for run in done.removed]
    lines += [f"kept {run}: {why}" for run, why in done.kept.items()]
    return "\n".join(lines) + "\n"


def runs_text(listed: Sequence[Listed]) -> str:
    """A table of the runs on a host."""
    if not listed:
        return "no runs\n"
    rows = [("RUN", "STATE", "MODEL", "STAGE", "AGE", "SIZE", "")]
    for run in listed:
        age = "-" if run.seconds is None else _age(run.seconds)
        rows.append((run.run, run.state, run.model or "-", run.stage, age, f"{run.bytes / 1e6:.1f} MB", _remark(run)))
    return "".join(f"{line}\n" for line in aligned(rows))


def _remark(run: Listed) -> str:
    place = f"host {run.node['rank'] + 1} of {run.node['count']} of one job" if run.node else ""
    return "; ".join(filter(None, (place, _state_of(run))))


def _state_of(run: Listed) -> str:
    if run.state == "running" and run.silent_s is not None and run.silent_s > FOLLOWED_S:
        rule = f"ends itself after {_age(round(run.orphan_s))}" if run.orphan_s else "needs no follower"
        return f"nobody has followed it for {_age(run.silent_s)}, {rule}"
    if run.state != "running" and run.processes:
        return f"{run.processes} of its processes are left"
    return run.message


def _age(seconds: int) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def verdict_text(verdict: dict[str, Any]) -> str:
    return "\n".join(_verdict_lines(verdict)) + "\n"


def _verdict_lines(verdict: dict[str, Any]) -> Iterator[str]:
    yield f"{verdict['verdict']}: {verdict['path']}"
    yield from _check_lines(verdict["checks"])
    for profile in verdict["profiles"]:
        yield f"{profile['phase'] or 'profile'}, rank {profile['rank']}: {profile['directory']}"
        yield from _check_lines(profile["checks"])


def _check_lines(checks: Sequence[dict[str, Any]]) -> Iterator[str]:
    for check in checks:
        yield f"  {check['verdict']:9} {check['id']:24} {check['message']}"
        if check["verdict"] not in ("pass", "na") and check["remedy"]:
            yield f"{'':36}{check['remedy']}"
