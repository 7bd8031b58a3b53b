"""Results as text for a person and as plain data for `--json`. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from .pipeline import Preview, Result
from .progress import preset


def result_document(result: Result) -> dict[str, Any]:
    manifest = result.manifest
    keys = ("run_id", "host", "model", "route", "devices", "visible_devices", "versions", "phases", "stages", "verdict")
    return {
        "directory": str(result.directory),
        "archive": {"path": str(result.archive), **manifest["archive"]},
        **{key: manifest[key] for key in keys},
    }


def result_text(result: Result) -> str:
    manifest = result.manifest
    checks = sum(len(profile["checks"]) for profile in manifest["profiles"]) + len(manifest["checks"])
    size = manifest["archive"]["size"]
    devices = ", ".join(f"{device['label']} {device['name']}" for device in manifest["devices"])
    lines = [
        f"{result.archive}  {size / 1e6:.1f} MB, {manifest['verdict']} ({checks} checks)",
        f"  on {manifest['host']}, {devices}, torch_npu {manifest['versions']['torch_npu']}",
    ]
    if manifest["visible_devices"] is not None:
        lines.append(f"  {preset(manifest['visible_devices'])}")
    lines += [f"  {phase}: {_steps(window)}" for phase, window in manifest["phases"].items()]
    return "\n".join(lines) + "\n"


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
        "facts": {key: value for key, value in dataclasses.asdict(preview.facts).items() if key != "npu"},
    }


def preview_text(preview: Preview) -> str:
    plan, facts = preview.plan, preview.facts
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items() if version)
    lines = [
        *(f"device    {device.label} {device.name}" for device in preview.devices),
        *([] if facts.visible_devices is None else [f"          {preset(facts.visible_devices)}"]),
        f"python    {facts.python} ({versions})",
        f"setup     {', '.join(facts.setup) or 'none found'}",
        f"workdir   {facts.workdir}, {facts.free_bytes / 2**30:.1f} GiB free",
        f"agent     {preview.agent}, {'there already' if facts.agent_present else 'to be uploaded'}",
        f"route     {plan.route}: {' '.join(plan.argv)}",
        f"expected  {plan.expected['level']} {plan.expected['aic_metrics']}, steps {plan.expected['steps']}",
    ]
    for name, text in plan.files.items():
        lines += [f"file      {name}", *(f"    {line}" for line in text.splitlines())]
    return "\n".join(lines) + "\n"


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
