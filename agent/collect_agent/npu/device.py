"""One NPU die, and a process on it, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

# Who said what is known of a device.
INFO, MAPPING, LIST = "npu-smi info", "npu-smi info -m", "npu-smi info -l"
USAGES, HOLDERS, TORCH = "npu-smi info -t usages", "npu-smi info -t proc-mem", "torch_npu"


@dataclass(frozen=True)
class Process:
    """A process on a device, with the device memory it holds in MB (None where it is not told).

    `name` is empty where npu-smi could not read it (a container without the host's PIDs). `container_pid` is the pid
    that it has in its container, from drivers that tell it. `user`: whose it is, where it is seen under that pid.
    """

    pid: int
    name: str
    memory_mb: Optional[int]
    container_pid: Optional[int] = None
    user: str = ""


@dataclass(frozen=True)
class Device:
    """What is known of one NPU die.

    `npu` is None when only torch_npu knows the device, `chip` also on A5, which has none. `logic` is what
    ASCEND_RT_VISIBLE_DEVICES takes; None while unknown. Memory is HBM where the chip has it, else DDR, in MB; None
    where nothing tells it. `doubt` says in words why what is said here may not be all, `source` who said it.
    """

    npu: Optional[int]
    chip: Optional[int] = None
    logic: Optional[int] = None
    phy: Optional[int] = None
    name: str = ""
    health: str = ""
    power_w: Optional[float] = None
    utilisation_pct: Optional[int] = None
    memory_used_mb: Optional[int] = None
    memory_total_mb: Optional[int] = None
    bus_id: Optional[str] = None
    processes: Tuple[Process, ...] = ()
    doubt: str = ""
    source: str = INFO

    def numbered(self, logic: Optional[int], doubt: str) -> Device:
        """The same under this logic id. `dataclasses.replace` takes three times as long, and a fleet has many."""
        return Device(
            self.npu,
            self.chip,
            logic,
            self.phy,
            self.name,
            self.health,
            self.power_w,
            self.utilisation_pct,
            self.memory_used_mb,
            self.memory_total_mb,
            self.bus_id,
            self.processes,
            doubt,
            self.source,
        )

    @property
    def label(self) -> str:
        """Every name a person may know it by: "NPU 3 chip 1 (logic 7)"."""
        npu = "" if self.npu is None else " {}".format(self.npu)
        chip = "" if self.chip is None else " chip {}".format(self.chip)
        logic = "" if self.logic is None else " (logic {})".format(self.logic)
        return "NPU{}{}{}".format(npu, chip, logic)
