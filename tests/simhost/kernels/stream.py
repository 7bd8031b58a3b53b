"""When kernels run: how long each takes, and their order on one stream.

A kernel's time is cut out of the time that the operator took on the simulated host's CPU, or estimated from its
shapes when nobody measured.
"""

from __future__ import annotations

from typing import Iterable, List, Optional, Sequence

from .kinds import Kind, kind_of
from .model import CUBE_CORES, ON_CUBE, VECTOR_CORES, Kernel, Operator, Tensor, product

# Round figures of an Atlas A2, used only to give an operator without a CPU time a plausible duration.
CUBE_FLOPS_PER_NS = 250_000
VECTOR_FLOPS_PER_NS = 5_000
HBM_BYTES_PER_NS = 1_000
SHORTEST_KERNEL_NS = 1_200
LAUNCH_NS = 1_000


def flops_of(kind: Kind, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    """Floating point operations, as far as the shapes tell."""
    result = sum(tensor.elements for tensor in outputs)
    ranked = [tensor.shape for tensor in inputs if len(tensor.shape) >= 2]
    if kind.type == "FlashAttentionScore" and len(ranked) >= 2:
        return 4 * product(ranked[0]) * ranked[1][-2]
    if kind.type.startswith("Conv") and len(ranked) >= 2:
        return 2 * result * product(ranked[-1][1:])
    if kind.core == "AI_CORE" and ranked:
        return 2 * result * ranked[0][-1]
    return result


def estimate_ns(kind: Kind, flops: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    """A plausible duration for an operator that nobody timed: the slower of arithmetic and memory."""
    per_ns = CUBE_FLOPS_PER_NS if kind.core in ON_CUBE else VECTOR_FLOPS_PER_NS
    traffic = sum(tensor.nbytes for tensor in (*inputs, *outputs))
    return SHORTEST_KERNEL_NS + max(flops // per_ns, traffic // HBM_BYTES_PER_NS)


def _block_dim(kind: Kind, outputs: Sequence[Tensor]) -> int:
    if kind.core == "DSA_SQE":
        return 0
    if kind.core == "AI_CPU":
        return 1
    tiles = -(-sum(tensor.elements for tensor in outputs) // 1024)
    return max(1, min(tiles, CUBE_CORES if kind.core in ON_CUBE else VECTOR_CORES))


def timeline(operators: Iterable[Operator], device_id: int = 0, stream_id: int = 2) -> List[Kernel]:
    """One kernel per operator on one stream: in launch order, never overlapping, each after its launch.

    A timed operator's kernel lies within the operator's time unless the stream was still busy then.
    """
    kernels: List[Kernel] = []
    free_at: Optional[int] = None
    for task_id, op in enumerate(sorted(operators, key=lambda item: item.start_ns), 1):
        kind = kind_of(op.name)
        flops = flops_of(kind, op.inputs, op.outputs)
        if op.end_ns is None:
            launch, duration = LAUNCH_NS, estimate_ns(kind, flops, op.inputs, op.outputs)
        else:
            span = max(op.end_ns - op.start_ns, 0)
            launch = max(LAUNCH_NS, span // 8)
            duration = max(span - launch - span // 16, SHORTEST_KERNEL_NS)
        start = op.start_ns + launch
        wait = 0
        if free_at is not None:
            start = max(start, free_at + 20)
            wait = start - free_at
        free_at = start + duration
        kernels.append(
            Kernel(
                name="_".join((kind.api, kind.middle, kind.type)),
                type=kind.type,
                core=kind.core,
                api=kind.api,
                block_dim=_block_dim(kind, op.outputs),
                inputs=op.inputs,
                outputs=op.outputs,
                flops=flops,
                launch_ns=op.start_ns,
                launch_duration_ns=launch,
                start_ns=start,
                duration_ns=duration,
                wait_ns=wait,
                device_id=device_id,
                stream_id=stream_id,
                task_id=task_id,
                thread_id=op.thread_id,
            )
        )
    return kernels
