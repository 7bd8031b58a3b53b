"""The counters of a kernel's cores: which there are for each of torch_npu's AiCMetrics, and invented values."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Dict, Tuple

from .model import CLOCK_MHZ, CUBE_CORES, ON_CUBE, ON_VECTOR, Kernel
from .units import short

# One family of counters: the cell's suffix, its weight on the compute side and its weight on the memory side.
_Counter = Tuple[str, float, float]
_CUBE_PIPES: Tuple[_Counter, ...] = (
    ("mac", 0.85, 0.05), ("scalar", 0.20, 0.45), ("mte1", 0.60, 0.10), ("mte2", 0.30, 0.90),
    ("fixpipe", 0.10, 0.25),
)  # fmt: skip
_VECTOR_PIPES: Tuple[_Counter, ...] = (
    ("vec", 0.75, 0.12), ("scalar", 0.15, 0.30), ("mte2", 0.25, 0.70), ("mte3", 0.15, 0.55),
)  # fmt: skip
# torch_npu's AiCMetrics values -> what CANN adds for the cube core and for the vector core. PipeUtilization
# has a time and a ratio for each pipe and is exact (CANN 8.3 on Atlas A2); of the others the names of
# ArithmeticUtilization and MemoryL0 are those of real files, the rest are plausible.
PIPE_UTILIZATION = "ACL_AICORE_PIPE_UTILIZATION"
NO_METRICS = "ACL_AICORE_NONE"
_OTHER_METRICS = {
    "ACL_AICORE_ARITHMETIC_UTILIZATION": (
        ("mac_fp16_ratio", "mac_int8_ratio", "cube_fops", "vector_fops"),
        ("vec_fp32_ratio", "vec_fp16_ratio", "vec_int32_ratio", "vec_misc_ratio", "cube_fops", "vector_fops"),
    ),
    "ACL_AICORE_MEMORY_BANDWIDTH": (
        ("l1_read_bw(GB/s)", "l1_write_bw(GB/s)", "main_mem_read_bw(GB/s)", "main_mem_write_bw(GB/s)",
         "l2_read_bw(GB/s)", "l2_write_bw(GB/s)"),
        ("ub_read_bw(GB/s)", "ub_write_bw(GB/s)", "main_mem_read_bw(GB/s)", "main_mem_write_bw(GB/s)",
         "l2_read_bw(GB/s)", "l2_write_bw(GB/s)"),
    ),
    "ACL_AICORE_L0B_AND_WIDTH": (
        ("l0a_read_bw(GB/s)", "l0a_write_bw(GB/s)", "l0b_read_bw(GB/s)", "l0b_write_bw(GB/s)",
         "l0c_read_bw_cube(GB/s)", "l0c_write_bw_cube(GB/s)"),
        ("l0c_read_bw(GB/s)", "l0c_write_bw(GB/s)"),
    ),
    "ACL_AICORE_MEMORY_UB": (
        ("ub_read_bw_scalar(GB/s)", "ub_write_bw_scalar(GB/s)"),
        ("ub_read_bw_vector(GB/s)", "ub_write_bw_vector(GB/s)", "ub_read_bw_scalar(GB/s)",
         "ub_write_bw_scalar(GB/s)"),
    ),
    "ACL_AICORE_RESOURCE_CONFLICT_RATIO": (
        ("cube_wait_ratio",),
        ("vec_bankgroup_cflt_ratio", "vec_bank_cflt_ratio", "vec_resc_cflt_ratio"),
    ),
    "ACL_AICORE_L2_CACHE": (
        ("write_cache_hit", "write_cache_miss_allocate", "r0_read_cache_hit", "r0_read_cache_miss_allocate"),
        ("write_cache_hit", "write_cache_miss_allocate", "r0_read_cache_hit", "r0_read_cache_miss_allocate"),
    ),
    "ACL_AICORE_MEMORY_ACCESS": (
        ("read_main_memory_datas(KB)", "write_main_memory_datas(KB)", "GM_to_L1_datas(KB)",
         "L0C_to_L1_datas(KB)"),
        ("read_main_memory_datas(KB)", "write_main_memory_datas(KB)", "GM_to_UB_datas(KB)",
         "UB_to_GM_datas(KB)"),
    ),
}  # fmt: skip


@lru_cache(maxsize=None)
def counter_columns(metrics: str) -> Tuple[str, ...]:
    """The columns that an AiCMetrics value adds to op_summary; none without metrics."""
    if metrics == NO_METRICS:
        return ()
    if metrics == PIPE_UTILIZATION:
        cube = [f"aic_{pipe}_{what}" for pipe, *_ in _CUBE_PIPES for what in ("time(us)", "ratio")]
        vector = [f"aiv_{pipe}_{what}" for pipe, *_ in _VECTOR_PIPES for what in ("time(us)", "ratio")]
        cube.append("aic_icache_miss_rate")
        vector += ["aiv_icache_miss_rate", "cube_utilization(%)"]
    else:
        names = _OTHER_METRICS[metrics]
        cube = ["aic_" + name for name in names[0]]
        vector = ["aiv_" + name for name in names[1]]
    return ("aicore_time(us)", "aic_total_cycles", *cube, "aiv_time(us)", "aiv_total_cycles", *vector)


def _permille(value: int) -> str:
    return str(Decimal(value) / 1000) if value else "0.0"


def _intensity(kernel: Kernel) -> float:
    """0 for a kernel that only moves data, towards 1 for one that mostly computes."""
    traffic = sum(tensor.nbytes for tensor in (*kernel.inputs, *kernel.outputs)) or 1
    ratio = kernel.flops / traffic
    return ratio / (ratio + (20.0 if kernel.core in ON_CUBE else 1.0))


def _core_cells(prefix: str, metrics: str, kernel: Kernel, used: bool) -> Dict[str, str]:
    cube = prefix == "aic"
    busy_ns = kernel.duration_ns * 9 // 10 if used else 0
    time_name = "aicore_time(us)" if cube else "aiv_time(us)"
    cells = {
        time_name: short(busy_ns) if used else "0.0",
        prefix + "_total_cycles": str(busy_ns * CLOCK_MHZ * kernel.block_dim // 1000),
    }
    level = _intensity(kernel)
    if metrics == PIPE_UTILIZATION:
        for pipe, compute, memory in _CUBE_PIPES if cube else _VECTOR_PIPES:
            permille = round(1000 * (compute * level + memory * (1 - level))) if used else 0
            cells[f"{prefix}_{pipe}_time(us)"] = short(busy_ns * permille // 1000) if used else "0.0"
            cells[f"{prefix}_{pipe}_ratio"] = _permille(permille)
        cells[prefix + "_icache_miss_rate"] = _permille(20 if used else 0)
    else:
        for place, name in enumerate(_OTHER_METRICS[metrics][0 if cube else 1], 1):
            share = round(1000 * level / place) if used else 0
            cells[f"{prefix}_{name}"] = _permille(share) if "ratio" in name else str(share)
    return cells


def counter_cells(kernel: Kernel, metrics: str) -> Dict[str, str]:
    """A kernel's cells under `counter_columns(metrics)`, in us, cycles, ratios, KB and GB/s."""
    if metrics == NO_METRICS or kernel.core not in (*ON_CUBE, *ON_VECTOR):
        return dict.fromkeys(counter_columns(metrics), "N/A")
    cells = _core_cells("aic", metrics, kernel, kernel.core in ON_CUBE)
    cells.update(_core_cells("aiv", metrics, kernel, kernel.core in ON_VECTOR))
    if metrics == PIPE_UTILIZATION:
        cycles = int(cells["aic_total_cycles"])
        possible = kernel.duration_ns * CLOCK_MHZ * CUBE_CORES // 1000
        cells["cube_utilization(%)"] = str(round(Decimal(100 * cycles) / possible, 3)) if cycles else "0"
    return cells
