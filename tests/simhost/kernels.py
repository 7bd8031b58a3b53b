"""What a simulated Ascend device makes of an operator: one kernel, with a name, a core, a time and counters.

Shared by both runtimes of the simulated host. Pure functions over plain data, deterministic: the same
operators give the same bytes. Standard library only, Python 3.8 and later.

**Nothing here is a measurement.** A kernel's time is either cut out of the time that the operator took on
the simulated host's CPU or estimated from its shapes, and every counter is invented from those. Faithful is
the structure: names, columns, units, which cells are filled, how the figures depend on each other.

Times are integers in nanoseconds since the epoch; `microseconds` prints them exactly, so that sums and unions
taken from the written files in decimal arithmetic come out exact.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

# Atlas A2 (910B3): the figures from which CANN derives cycles and cube utilization.
CLOCK_MHZ = 1800
CUBE_CORES = 20
VECTOR_CORES = 40
# Round figures of the same device, used only to give an operator without a CPU time a plausible duration.
CUBE_FLOPS_PER_NS = 250_000
VECTOR_FLOPS_PER_NS = 5_000
HBM_BYTES_PER_NS = 1_000
SHORTEST_KERNEL_NS = 1_200
LAUNCH_NS = 1_000

MODEL_ID = 4294967295  # what CANN prints for kernels that belong to no offline model


class Tensor(NamedTuple):
    shape: Tuple[int, ...]
    dtype: str  # as torch spells it, with or without "torch."


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


class Kind(NamedTuple):
    type: str
    core: str
    api: str
    middle: str  # the second part of the kernel's name


# aten base name -> CANN's operator type, for those whose type is not simply the name in camel case.
_TYPES = {
    "mm": "MatMulV2", "addmm": "MatMulV2", "matmul": "MatMulV2", "linear": "MatMulV2", "bmm": "BatchMatMulV2",
    "baddbmm": "BatchMatMulV2", "dot": "Dot", "mv": "MatMulV2", "addmv": "MatMulV2",
    "conv1d": "Conv2D", "conv2d": "Conv2D", "conv3d": "Conv3D", "convolution": "Conv2D",
    "convolution_overrideable": "Conv2D", "convolution_backward": "Conv2DBackpropInput",
    "convolution_backward_overrideable": "Conv2DBackpropInput",
    "scaled_dot_product_attention": "FlashAttentionScore", "npu_fusion_attention": "FlashAttentionScore",
    "softmax": "SoftmaxV2", "log_softmax": "LogSoftmaxV2", "layer_norm": "LayerNormV4",
    "native_layer_norm": "LayerNormV4", "native_group_norm": "GroupNorm", "embedding": "GatherV2",
    "index_select": "GatherV2", "index": "Index", "gather": "GatherElements", "cat": "ConcatD",
    "stack": "Pack",
    "mean": "ReduceMean", "sum": "ReduceSum", "amax": "ReduceMax", "amin": "ReduceMin", "all": "ReduceAll",
    "any": "ReduceAny", "max": "ArgMaxWithValue", "min": "ArgMinWithValue", "argmax": "ArgMaxV2",
    "argmin": "ArgMin", "topk": "TopKV2", "silu": "Swish", "clone": "Identity", "copy": "TensorMove",
    "to_copy": "Cast", "contiguous": "Transpose", "arange": "Range", "where": "SelectV2", "fill": "Fill",
    "zero": "ZerosLike", "zeros": "ZerosLike", "ones": "OnesLike", "div": "RealDiv", "eq": "Equal",
    "ne": "NotEqual", "ge": "GreaterEqual", "gt": "Greater", "le": "LessEqual", "lt": "Less",
    "masked_fill": "MaskedFill", "normal": "DSARandomNormal", "randn": "DSARandomNormal",
    "uniform": "DSARandomUniform", "rand": "DSARandomUniform", "bernoulli": "DSAGenBitMask",
    "random": "DSARandomUniform", "randint": "DSARandomUniform", "cumsum": "Cumsum",
    "multinomial": "MultinomialWithReplacement",
    "upsample_nearest2d": "ResizeNearestNeighborV2", "adaptive_avg_pool2d": "AdaptiveAvgPool3d",
    "max_pool2d_with_indices": "MaxPoolWithArgmaxV1", "threshold_backward": "ReluGrad", "gelu": "Gelu",
}  # fmt: skip
_MATMUL_TYPES = {"MatMulV2": "MatMulCommon", "BatchMatMulV2": "BatchMatMulNode"}
_CUBE_TYPES = {"MatMulV2", "BatchMatMulV2", "Conv2D", "Conv3D", "Conv2DBackpropInput"}
_AI_CPU_NAMES = {"unique2", "unique_dim", "multinomial", "histc", "bincount", "searchsorted", "linalg_svd",
                 "linalg_eigh", "linalg_qr", "cholesky"}  # fmt: skip
_DTYPES = {
    "float32": "FLOAT", "float16": "FLOAT16", "bfloat16": "DT_BF16", "float64": "DOUBLE", "int64": "INT64",
    "int32": "INT32", "int16": "INT16", "int8": "INT8", "uint8": "UINT8", "bool": "BOOL",
    "complex64": "COMPLEX64", "complex128": "COMPLEX128",
}  # fmt: skip

BASE_COLUMNS = (
    "Device_id", "Model ID", "Task ID", "Stream ID", "Op Name", "OP Type", "OP State", "Task Type",
    "Task Start Time(us)", "Task Duration(us)", "Task Wait Time(us)", "Block Dim", "Mix Block Dim",
    "HF32 Eligible", "Input Shapes", "Input Data Types", "Input Formats", "Output Shapes",
    "Output Data Types", "Output Formats", "Context ID",
)  # fmt: skip
LEVEL0_COLUMNS = BASE_COLUMNS[:6] + BASE_COLUMNS[7:12]
OP_STATISTIC_COLUMNS = (
    "Device_id", "OP Type", "Core Type", "Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)",
    "Max Time(us)", "Ratio(%)",
)  # fmt: skip
API_STATISTIC_COLUMNS = (
    "Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance",
)  # fmt: skip

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


def microseconds(ns: int) -> str:
    """1736408883704643212 -> "1736408883704643.212": exact, always three decimals."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"


def short(ns: int) -> str:
    """Microseconds as CANN prints durations: 53741 -> "53.741", 6540 -> "6.54", 0 -> "0"."""
    return microseconds(ns).rstrip("0").rstrip(".")


# --- an operator's kernel -----------------------------------------------------------------------------------


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_") if part)


@lru_cache(maxsize=None)
def kind_of(name: str) -> Kind:
    """The kernel that CANN would choose for an aten operator, by its name alone."""
    base = name.split("::")[-1].split(".")[0]
    in_place = base.endswith("_") and not base.endswith("__")
    plain = base.strip("_")
    type_ = _TYPES.get(plain) or _camel(plain)
    api = "aclnn" + ("Inplace" if in_place else "") + _camel(plain)
    if type_ in _CUBE_TYPES:
        return Kind(type_, "AI_CORE", api, _MATMUL_TYPES.get(type_, type_))
    if "attention" in plain:
        return Kind("FlashAttentionScore", "MIX_AIC", "aclnnFlashAttentionScore", "FlashAttentionScore")
    if type_.startswith("DSA"):
        return Kind(type_, "DSA_SQE", api, type_)
    if plain in _AI_CPU_NAMES:
        return Kind(type_, "AI_CPU", api, type_ + "AiCpu")
    family = type_[:-2] if type_[-2:] in ("V2", "V3", "V4") else type_
    return Kind(type_, "AI_VECTOR_CORE", api, family + "AiCore")


def _count(shape: Sequence[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _dtype(tensor: Tensor) -> str:
    return tensor.dtype[6:] if tensor.dtype.startswith("torch.") else tensor.dtype


def _size(tensor: Tensor) -> int:
    bits = "".join(filter(str.isdigit, _dtype(tensor)))
    return _count(tensor.shape) * int(bits or 8) // 8


def flops_of(kind: Kind, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    """Floating point operations, as far as the shapes tell."""
    result = sum(_count(tensor.shape) for tensor in outputs)
    ranked = [tensor.shape for tensor in inputs if len(tensor.shape) >= 2]
    if kind.type == "FlashAttentionScore" and len(ranked) >= 2:
        return 4 * _count(ranked[0]) * ranked[1][-2]
    if kind.type.startswith("Conv") and len(ranked) >= 2:
        return 2 * result * _count(ranked[-1][1:])
    if kind.core == "AI_CORE" and ranked:
        return 2 * result * ranked[0][-1]
    return result


def estimate_ns(kind: Kind, flops: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    """A plausible duration for an operator that nobody timed: the slower of arithmetic and memory."""
    per_ns = CUBE_FLOPS_PER_NS if kind.core in ("AI_CORE", "MIX_AIC") else VECTOR_FLOPS_PER_NS
    traffic = sum(_size(tensor) for tensor in (*inputs, *outputs))
    return SHORTEST_KERNEL_NS + max(flops // per_ns, traffic // HBM_BYTES_PER_NS)


def _block_dim(kind: Kind, outputs: Sequence[Tensor]) -> int:
    if kind.core == "DSA_SQE":
        return 0
    if kind.core == "AI_CPU":
        return 1
    tiles = -(-sum(_count(tensor.shape) for tensor in outputs) // 1024)
    return max(1, min(tiles, CUBE_CORES if kind.core in ("AI_CORE", "MIX_AIC") else VECTOR_CORES))


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


# --- op_summary ---------------------------------------------------------------------------------------------


def _metric_columns(metrics: str) -> Tuple[str, ...]:
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


@lru_cache(maxsize=None)
def op_summary_columns(level: str, metrics: str) -> Tuple[str, ...]:
    """`level` Level0 to Level2, `metrics` an AiCMetrics value; PipeUtilization at Level1 has 46 columns."""
    if level == "Level0":
        return LEVEL0_COLUMNS
    return BASE_COLUMNS if metrics == NO_METRICS else BASE_COLUMNS + _metric_columns(metrics)


def _shapes(tensors: Sequence[Tensor]) -> str:
    return '"' + ";".join(",".join(map(str, tensor.shape)) for tensor in tensors) + '"' if tensors else "N/A"


def _types(tensors: Sequence[Tensor]) -> str:
    return ";".join(_DTYPES.get(_dtype(tensor), _dtype(tensor).upper()) for tensor in tensors) or "N/A"


def _formats(kernel: Kernel, tensors: Sequence[Tensor]) -> str:
    picture = kernel.type.startswith("Conv")
    return ";".join("NCHW" if picture and len(t.shape) == 4 else "FORMAT_ND" for t in tensors) or "N/A"


def _permille(value: int) -> str:
    return str(Decimal(value) / 1000) if value else "0.0"


def _intensity(kernel: Kernel) -> float:
    """0 for a kernel that only moves data, towards 1 for one that mostly computes."""
    traffic = sum(_size(tensor) for tensor in (*kernel.inputs, *kernel.outputs)) or 1
    ratio = kernel.flops / traffic
    return ratio / (ratio + (20.0 if kernel.core in ("AI_CORE", "MIX_AIC") else 1.0))


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


def op_summary_row(kernel: Kernel, level: str, metrics: str) -> Dict[str, str]:
    """A row of op_summary, keyed by `op_summary_columns(level, metrics)`; us, a tab behind the start."""
    row = {
        "Device_id": str(kernel.device_id), "Model ID": str(MODEL_ID), "Task ID": str(kernel.task_id),
        "Stream ID": str(kernel.stream_id), "Op Name": kernel.name, "OP Type": kernel.type,
        "OP State": "dynamic", "Task Type": kernel.core,
        "Task Start Time(us)": microseconds(kernel.start_ns) + "\t",
        "Task Duration(us)": short(kernel.duration_ns), "Task Wait Time(us)": short(kernel.wait_ns),
        "Block Dim": str(kernel.block_dim),
        "Mix Block Dim": str(2 * kernel.block_dim if kernel.core == "MIX_AIC" else 0),
        "HF32 Eligible": "YES" if kernel.type.startswith("Conv") else "NO",
        "Input Shapes": _shapes(kernel.inputs), "Input Data Types": _types(kernel.inputs),
        "Input Formats": _formats(kernel, kernel.inputs), "Output Shapes": _shapes(kernel.outputs),
        "Output Data Types": _types(kernel.outputs), "Output Formats": _formats(kernel, kernel.outputs),
        "Context ID": "0" if kernel.core == "MIX_AIC" else "N/A",
    }  # fmt: skip
    columns = op_summary_columns(level, metrics)
    if level == "Level0":
        # Without the host's operator records CANN knows neither the type nor the core of a task.
        row.update({"OP Type": "N/A", "Task Type": "N/A", "Block Dim": "0"})
    elif metrics != NO_METRICS and kernel.core in ("AI_CPU", "DSA_SQE"):
        row.update(dict.fromkeys(columns[len(BASE_COLUMNS) :], "N/A"))
    elif metrics != NO_METRICS:
        row.update(_core_cells("aic", metrics, kernel, kernel.core in ("AI_CORE", "MIX_AIC")))
        row.update(_core_cells("aiv", metrics, kernel, kernel.core in ("AI_VECTOR_CORE", "MIX_AIC")))
        if metrics == PIPE_UTILIZATION:
            cycles = int(row["aic_total_cycles"])
            possible = kernel.duration_ns * CLOCK_MHZ * CUBE_CORES // 1000
            row["cube_utilization(%)"] = str(round(Decimal(100 * cycles) / possible, 3)) if cycles else "0"
    return {name: row[name] for name in columns}


# --- aggregates ---------------------------------------------------------------------------------------------


def op_statistic_rows(kernels: Sequence[Kernel]) -> List[Dict[str, str]]:
    """Per (type, core), heaviest first; counts and times are the sums over `kernels`, ratios add to 100."""
    groups: Dict[Tuple[int, str, str], List[int]] = {}
    for kernel in kernels:
        groups.setdefault((kernel.device_id, kernel.type, kernel.core), []).append(kernel.duration_ns)
    total = sum(kernel.duration_ns for kernel in kernels)
    rows = []
    for (device, type_, core), times in sorted(groups.items(), key=lambda item: (-sum(item[1]), item[0])):
        average, ratio = sum(times) // len(times), Decimal(100 * sum(times)) / total
        stats = (sum(times), min(times), average, max(times))
        cells = (str(device), type_, core, str(len(times)), *map(short, stats), str(round(ratio, 3)))
        rows.append(dict(zip(OP_STATISTIC_COLUMNS, cells)))
    return rows


def api_statistic_rows(kernels: Sequence[Kernel]) -> List[Dict[str, str]]:
    """Per host call: one acl row for each aclnn API and one node row for all launches."""
    groups: Dict[Tuple[str, str], List[int]] = {}
    for kernel in kernels:
        groups.setdefault(("acl", kernel.api), []).append(kernel.launch_duration_ns)
        groups.setdefault(("node", "launch"), []).append(kernel.launch_duration_ns // 2)
    rows = []
    for (level, name), times in sorted(groups.items()):
        mean = Decimal(sum(times)) / len(times) / 1000
        variance = sum((Decimal(time) / 1000 - mean) ** 2 for time in times) / len(times)
        summary = (
            short(sum(times)),
            str(len(times)),
            str(round(mean, 3)),
            short(min(times)),
            short(max(times)),
        )
        cells = ("host", level, name, *summary, str(round(variance, 3)))
        rows.append(dict(zip(API_STATISTIC_COLUMNS, cells)))
    return rows


# --- timeline -----------------------------------------------------------------------------------------------


def busy_and_free(kernels: Sequence[Kernel]) -> Tuple[List[Tuple[int, int]], List[Tuple[int, int]]]:
    """(start_ns, end_ns) of the "Computing" and of the "Free" slices of CANN's overlap analysis, in order.

    Free is what lies between the first and the last kernel of the whole capture and is not Computing (msprof,
    overlap_analysis_processor.cpp); nothing cuts it at the steps. torch_npu counts a slice to the step in which it
    begins, so that the Stage of a step that has ended on the device before it ends on the host reaches to the first
    kernel of the next step.
    """
    busy = [(kernel.start_ns, kernel.end_ns) for kernel in kernels]
    pairs = zip(busy, busy[1:])  # noqa: RUF007 - Python 3.8
    free = [(end, start) for (_, end), (start, _) in pairs if end < start]
    return busy, free


def connection_ids(number: int) -> Tuple[int, int]:
    """The ids of the host's two calls for the kernel of that number: the acl call and the launch in it."""
    return 2 * number, 2 * number + 1


def _metadata(pid: int, name: str, label: str, order: int, threads: Dict[int, str]) -> List[Dict[str, object]]:
    def event(what: str, tid: int, **args: object) -> Dict[str, object]:
        return {"name": what, "pid": pid, "tid": tid, "args": args, "ph": "M"}

    events = [event("process_name", 0, name=name), event("process_labels", 0, labels=label),
              event("process_sort_index", 0, sort_index=order)]  # fmt: skip
    for tid, thread in threads.items():
        events += [event("thread_name", tid, name=thread), event("thread_sort_index", tid, sort_index=tid)]
    return events


def timeline_events(kernels: Sequence[Kernel], pid: int, level: str = "Level1") -> List[Dict[str, object]]:
    """CANN's timeline (`msprof_*.json`): trace events whose `ts` is a decimal string in us, `dur` a number.

    `pid` is the profiled process; CANN derives the ids of its own rows from it. At Level0 the host's calls
    are not there: only the flows tell where a kernel came from.
    """
    first = kernels[0] if kernels else None
    device = first.device_id if first else 0
    cann, hardware, overlap = ((pid << 10) + 32 * row for row in (5, 13, 22))
    made: List[Dict[str, object]] = []
    if level != "Level0":
        threads = {kernel.thread_id: f"Thread {kernel.thread_id}" for kernel in kernels}
        made += _metadata(cann, "CANN", "CPU", 7, threads)
    streams = {kernel.stream_id: f"Stream {kernel.stream_id}" for kernel in kernels}
    made += _metadata(hardware, "Ascend Hardware", f"NPU {device}", 13, streams)
    rows = {0: "Computing", 1: "Communication", 2: "Communication(Not Overlapped)", 3: "Free"}
    made += _metadata(overlap, "Overlap Analysis", f"NPU {device}", 23, rows)
    for number, kernel in enumerate(kernels):
        connections = connection_ids(number)
        launch, start = microseconds(kernel.launch_ns), microseconds(kernel.start_ns)
        here = {"pid": cann, "tid": kernel.thread_id, "ts": launch}
        there = {"pid": hardware, "tid": kernel.stream_id, "ts": start}
        flow = {"name": f"HostToDevice{connections[1]}", "cat": "HostToDevice", "id": str(connections[1])}
        if level != "Level0":
            calls = (("AscendCL", kernel.api, "acl"), ("Node", "launch", "node"))
            for part, (layer, call, short_level) in enumerate(calls):
                args = {"Thread Id": kernel.thread_id, "Mode": "launch", "level": short_level, "id": call,
                        "item_id": kernel.name, "connection_id": connections[part]}  # fmt: skip
                duration = kernel.launch_duration_ns // (part + 1) / 1000
                made.append({"name": f"{layer}@{call}", **here, "dur": duration, "args": args, "ph": "X"})
        task = {"Model Id": MODEL_ID, "Task Type": kernel.core if level != "Level0" else "N/A",
                "Physic Stream Id": kernel.stream_id, "Task Id": kernel.task_id, "Batch Id": 0,
                "Subtask Id": MODEL_ID, "connection_id": connections[1]}  # fmt: skip
        made.append(
            {"name": kernel.name, **there, "dur": kernel.duration_ns / 1000, "args": task, "ph": "X"},
        )
        made.append({**flow, "ph": "s", **here})
        made.append({**flow, "ph": "f", **there, "bp": "e"})
    busy, free = busy_and_free(kernels)
    for name, tid, slices in (("Computing", 0, busy), ("Free", 3, free)):
        for start_ns, end_ns in slices:
            made.append({"name": name, "pid": overlap, "tid": tid, "ts": microseconds(start_ns),
                           "dur": (end_ns - start_ns) / 1000, "ph": "X"})  # fmt: skip
    return made
