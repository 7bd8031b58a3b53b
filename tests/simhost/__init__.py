"""The simulated Ascend host: a real SSH server on loopback, npu-smi, CANN's layout and a torch_npu runtime.

Nothing here is an NPU: kernel times, power and memory figures are invented, and no result is a measurement.

    with SimHost(tmp_path, chip="910B3") as host:
        connect(**host.inventory_entry())
"""

from .host import SimHost
from .knobs import Knobs
from .uses import Use

__all__ = ["Knobs", "SimHost", "Use"]
