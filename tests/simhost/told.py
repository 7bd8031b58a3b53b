"""What npu-smi and the runtimes are told of the devices: by the knobs of a host and of the containers on it.

Everything goes by physical id, which a host and its containers share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .hostside.driver import Device
from .knobs import Knobs

Said = dict[int, dict[str, Any]]


class Place(NamedTuple):
    """A host or a container: its devices with their own logic ids, and its knobs."""

    devices: list[Device]
    knobs: Knobs


def said(here: Place, host: Place) -> Said:
    """What npu-smi says of each device `here` instead: what it says on the `host`, and more in a container."""
    of_host = {device.phy: host.knobs.devices.get(device.logic, {}) for device in host.devices}
    return {device.phy: {**of_host[device.phy], **here.knobs.devices.get(device.logic, {})} for device in here.devices}


def jobs(here: Place, host: Place, everywhere: Sequence[Place]) -> list[dict[str, Any]]:
    """Other people's jobs on the devices: who takes memory, and whether npu-smi shows a row of it `here`."""
    found = []
    for place in everywhere:
        phys = {device.logic: device.phy for device in place.devices}
        for job in place.knobs.processes:
            shown = place is here or here is host
            found.append({**job, "phy": phys[job["logic"]], "shown": shown and not job.get("hidden", False)})
    return found


def runtime_devices(here: Place, said: Said, jobs: list[dict[str, Any]]) -> list[Device]:
    """The devices that a runtime finds `here`, with the memory that all but the live holders use.

    A device that fell off the bus is not there, one without a heartbeat has no memory.
    """
    found = []
    for device in here.devices:
        instead = said[device.phy]
        if instead.get("lost") in ("row", "orphan"):
            continue
        taken = device.idle_used_mb + sum(job["mb"] for job in jobs if job["phy"] == device.phy)
        figures = instead.get("used_mb"), instead.get("total_mb")
        used, total = (0, 0) if instead.get("lost") == "heartbeat" else figures
        found.append(
            device._replace(
                idle_used_mb=used if isinstance(used, int) else taken,
                total_mb=total if isinstance(total, int) else device.total_mb,
            )
        )
    return found


def answers(knobs: Knobs) -> dict[str, Any]:
    """How npu-smi answers, as plain data."""
    text = knobs.npu_smi_text
    return {
        "text": text if text is None or isinstance(text, str) else dict(text),
        "status": knobs.npu_smi_status,
        "fails": list(knobs.npu_smi_fails),
        "library_missing": not knobs.npu_smi_library,
        "before": knobs.npu_smi_before,
        "after": knobs.npu_smi_after,
        "delay": knobs.npu_smi_delay,
        "hangs": knobs.npu_smi_hangs,
        "pids": knobs.npu_smi_pids,
    }


def software(knobs: Knobs) -> str:
    """What the light runtime is told of its own installation (see its ``simulated_host``)."""
    lines = [f"version {name} {version}" for name, version in knobs.versions.items()]
    lines += [f"library {name}" for name in knobs.libraries]
    return "".join(line + "\n" for line in [*lines, f"import {knobs.torch_npu_import}"])


def engine(knobs: Knobs, containers: list[dict[str, Any]]) -> dict[str, Any]:
    """What the program of the container engine is told (see ``hostside.engine``)."""
    return {"engine": knobs.container_engine, "daemon": knobs.container_daemon, "containers": containers}
