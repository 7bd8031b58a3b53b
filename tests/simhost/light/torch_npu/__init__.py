"""A light stand-in of torch_npu for the simulated Ascend host: devices, memory, and the profiler.

The profiler follows torch_npu 2.13.0 in its state table, messages, files and failures; the device behind it is a clock.
**Kernel times are invented from shapes; they are never measurements.**
"""

from __future__ import annotations

import os as _os
import sys as _sys

import simulated_host as _simulated_host

_simulated_host.load_libraries()

import torch as _torch  # noqa: E402

from . import _device  # noqa: E402
from . import npu as npu  # noqa: E402

__version__ = _simulated_host.version("torch_npu", "2.13.0")

_torch._launch.install(_device.NpuBackend())
_torch.npu = npu  # type: ignore[attr-defined]
_sys.modules["torch.npu"] = npu

from . import profiler as profiler  # noqa: E402

if _os.environ.get("PROF_CONFIG_PATH"):
    from .profiler import dynamic_profile as _dynamic_profile

    _dynamic_profile.non_intrusive(_os.environ["PROF_CONFIG_PATH"])
