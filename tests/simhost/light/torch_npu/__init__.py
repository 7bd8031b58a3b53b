"""A light stand-in of torch_npu for the simulated Ascend host: devices, memory, and the profiler.

The profiler follows torch_npu 2.13.0 in its state table, messages, files and failures; the device behind it is a clock.
**Kernel times are invented from shapes; they are never measurements.**
"""

from __future__ import annotations

import os as _os
import sys as _sys

if not _os.environ.get("ASCEND_HOME_PATH"):
    # What the dynamic linker says when CANN's set_env.sh has not been sourced.
    raise ImportError("libhccl.so: cannot open shared object file: No such file or directory")

import torch as _torch

from . import _device
from . import npu as npu

__version__ = "2.13.0"

_torch._launch.install(_device.NpuBackend())
_torch.npu = npu  # type: ignore[attr-defined]
_sys.modules["torch.npu"] = npu

from . import profiler as profiler  # noqa: E402
