"""Collect torch_npu profiles from remote Huawei Ascend hosts over SSH, verified.

    host = load_inventory(Path("inventory.yaml")).host("ascend01")
    result = collect(Request(host="ascend01", model="llama"), host)

Names are imported when they are used: this package itself costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .devices import Device, Verdict
    from .errors import CollectError
    from .inventory import Host, Inventory, ModelSpec
    from .inventory import load as load_inventory
    from .pipeline import Preview, Result, collect, deploy_agent, devices, preview
    from .request import Request

__version__ = "0.1.0"
__all__ = [
    "CollectError",
    "Device",
    "Host",
    "Inventory",
    "ModelSpec",
    "Preview",
    "Request",
    "Result",
    "Verdict",
    "collect",
    "deploy_agent",
    "devices",
    "load_inventory",
    "preview",
]

_HOME = {
    **dict.fromkeys(("Device", "Verdict"), "devices"),
    **dict.fromkeys(("Host", "Inventory", "ModelSpec"), "inventory"),
    **dict.fromkeys(("Preview", "Result", "collect", "deploy_agent", "devices", "preview"), "pipeline"),
    "CollectError": "errors",
    "Request": "request",
    "load_inventory": "inventory",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module("." + _HOME[name], __name__)
    return getattr(module, "load" if name == "load_inventory" else name)
