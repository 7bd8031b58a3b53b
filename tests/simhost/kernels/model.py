"""The device and the plain data about it: an operator comes in, a kernel with its launch comes out."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence, Tuple

# Atlas A2 (910B3): the figures from which CANN derives cycles and cube utilization.
CLOCK_MHZ = 1800
CUBE_CORES = 20
VECTOR_CORES = 40

# The core types (`Kernel.core`) whose kernels run on a cube core and on a vector core.
ON_CUBE = ("AI_CORE", "MIX_AIC")
ON_VECTOR = ("AI_VECTOR_CORE", "MIX_AIC")
MODEL_ID = 4294967295  # what CANN prints for kernels that belong to no offline model


def product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


class Tensor(NamedTuple):
    shape: Tuple[int, ...]
    dtype: str  # as torch spells it, with or without "torch."

    @property
    def elements(self) -> int:
        return product(self.shape)

    @property
    def plain_dtype(self) -> str:
        return self.dtype[6:] if self.dtype.startswith("torch.") else self.dtype

    @property
    def nbytes(self) -> int:
        bits = "".join(filter(str.isdigit, self.plain_dtype))
        return self.elements * int(bits or 8) // 8


class Operator(NamedTuple):
    """One recorded call of an aten operator that launches work on the device."""

    name: str  # "aten::add.Tensor", "add.Tensor" or "add"
    start_ns: int
    end_ns: Optional[int]  # None: nobody measured; the kernel's time is estimated from the shapes
    inputs: Tuple[Tensor, ...] = ()
    outputs: Tuple[Tensor, ...] = ()
    thread_id: int = 0


class Kernel(NamedTuple):
    """One device task and the host call that launched it; every `*_ns` is an integer."""

    name: str  # "aclnnMm_MatMulCommon_MatMulV2"
    type: str  # "MatMulV2"
    core: str  # AI_CORE, AI_VECTOR_CORE, MIX_AIC, AI_CPU, DSA_SQE
    api: str  # "aclnnMm"
    block_dim: int
    inputs: Tuple[Tensor, ...]
    outputs: Tuple[Tensor, ...]
    flops: int
    launch_ns: int
    launch_duration_ns: int
    start_ns: int
    duration_ns: int
    wait_ns: int  # since the end of the stream's previous kernel; 0 for the first
    device_id: int
    stream_id: int
    task_id: int
    thread_id: int

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns
