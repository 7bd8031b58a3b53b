"""The simulated Ascend host: a real SSH server on loopback, npu-smi, CANN's layout and a torch_npu runtime.

Nothing here is an NPU: kernel times, power and memory figures are invented, and no result is a measurement.

    with SimHost(tmp_path, chip="910B3") as host:
        connect(**host.inventory_entry())

Names are imported when they are used: what npu-smi prints (`hostside`) is also wanted by tests on old Pythons, which
lack the packages of an SSH server.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .host import SimHost
    from .knobs import Knobs
    from .uses import Use

__all__ = ["Knobs", "SimHost", "Use"]


def __getattr__(name: str) -> Any:
    home = {"Knobs": "knobs", "SimHost": "host", "Use": "uses"}
    if name not in home:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("." + home[name], __name__), name)
