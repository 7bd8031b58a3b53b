"""CANN's tables of a capture: op_summary, op_statistic and api_statistic, as columns and rows of cells."""

from __future__ import annotations

from decimal import Decimal
from typing import Dict, List, Sequence, Tuple

from .counters import counter_cells, counter_columns
from .model import MODEL_ID, Kernel, Tensor
from .units import microseconds, short

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
_DTYPES = {
    "float32": "FLOAT", "float16": "FLOAT16", "bfloat16": "DT_BF16", "float64": "DOUBLE", "int64": "INT64",
    "int32": "INT32", "int16": "INT16", "int8": "INT8", "uint8": "UINT8", "bool": "BOOL",
    "complex64": "COMPLEX64", "complex128": "COMPLEX128",
}  # fmt: skip


def op_summary_columns(level: str, metrics: str) -> Tuple[str, ...]:
    """`level` Level0 to Level2, `metrics` an AiCMetrics value; PipeUtilization at Level1 has 46 columns."""
    return LEVEL0_COLUMNS if level == "Level0" else BASE_COLUMNS + counter_columns(metrics)


def _shapes(tensors: Sequence[Tensor]) -> str:
    return '"' + ";".join(",".join(map(str, tensor.shape)) for tensor in tensors) + '"' if tensors else "N/A"


def _types(tensors: Sequence[Tensor]) -> str:
    return ";".join(_DTYPES.get(tensor.plain_dtype, tensor.plain_dtype.upper()) for tensor in tensors) or "N/A"


def _formats(kernel: Kernel, tensors: Sequence[Tensor]) -> str:
    picture = kernel.type.startswith("Conv")
    return ";".join("NCHW" if picture and len(t.shape) == 4 else "FORMAT_ND" for t in tensors) or "N/A"


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
    if level == "Level0":
        # Without the host's operator records CANN knows neither the type nor the core of a task.
        row.update({"OP Type": "N/A", "Task Type": "N/A", "Block Dim": "0"})
    else:
        row.update(counter_cells(kernel, metrics))
    return {name: row[name] for name in op_summary_columns(level, metrics)}


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
