"""Collect torch_npu profiles from remote Huawei Ascend hosts over SSH, verified.

    host = load_inventory(Path("inventory.yaml")).host("ascend01")
    profile = collect(Request(host="ascend01", model="llama"), host)
    kernels = list(profile.rows("kernel_details.csv"))

Names are imported when they are used: this package itself costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cancel import Cancel
    from .collection.manage import Cleaned, attach, clean, runs, stop
    from .collection.pipeline import Preview, collect, deploy_agent, devices, new_run_id, preview, start
    from .collection.run import Run
    from .collection.wire import Listed
    from .errors import CollectError
    from .inventory import Host, Inventory, ModelSpec
    from .inventory import load as load_inventory
    from .nodes.job import collect_job, preview_job
    from .npus.judged import Device, Verdict
    from .request import Request
    from .results.profile import Profile
    from .sweeps.cells import Outcome
    from .sweeps.plan import cells_of
    from .sweeps.schedule import Limits
    from .sweeps.whole import Sweep, sweep
    from .sweeps.work import Task, perform

__version__ = "0.1.0"
__all__ = [
    "Cancel",
    "Cleaned",
    "CollectError",
    "Device",
    "Host",
    "Inventory",
    "Limits",
    "Listed",
    "ModelSpec",
    "Outcome",
    "Preview",
    "Profile",
    "Request",
    "Run",
    "Sweep",
    "Task",
    "Verdict",
    "attach",
    "cells_of",
    "clean",
    "collect",
    "collect_job",
    "deploy_agent",
    "devices",
    "load_inventory",
    "new_run_id",
    "perform",
    "preview",
    "preview_job",
    "runs",
    "start",
    "stop",
    "sweep",
]

_HOME = {
    **dict.fromkeys(("Device", "Verdict"), "npus.judged"),
    **dict.fromkeys(("Host", "Inventory", "ModelSpec", "load_inventory"), "inventory"),
    **dict.fromkeys(
        ("Preview", "collect", "deploy_agent", "devices", "new_run_id", "preview", "start"), "collection.pipeline"
    ),
    **dict.fromkeys(("Cleaned", "attach", "clean", "runs", "stop"), "collection.manage"),
    **dict.fromkeys(("collect_job", "preview_job"), "nodes.job"),
    **dict.fromkeys(("Sweep", "sweep"), "sweeps.whole"),
    **dict.fromkeys(("Task", "perform"), "sweeps.work"),
    "Cancel": "cancel",
    "CollectError": "errors",
    "Limits": "sweeps.schedule",
    "Listed": "collection.wire",
    "Outcome": "sweeps.cells",
    "Profile": "results.profile",
    "Request": "request",
    "Run": "collection.run",
    "cells_of": "sweeps.plan",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module("." + _HOME[name], __name__)
    return getattr(module, "load" if name == "load_inventory" else name)
