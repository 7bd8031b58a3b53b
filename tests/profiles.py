"""Profiles as torch_npu.profiler leaves them, written from a few parameters: numbers invented, formats real.

The formats follow real exports of 910A and 910B and the source of torch_npu: column names and their order by chip and
CANN, decimal times with a trailing tab, twice quoted shapes, call stacks that span lines, a trace that is one JSON list
with decimal strings for `ts`. One compute kernel follows the other; a collective starts inside the last kernel
of its step. So every sum that the files must agree on is known by construction.
"""

from __future__ import annotations

import csv
import json
import sqlite3
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

BASE = ["Name", "Type", "OP State", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)"]
SHAPES = [side + what for side in ("Input ", "Output ") for what in ("Shapes", "Data Types", "Formats")]
PIPES_910A = ["vec", "mac", "scalar", "mte1", "mte2", "mte3"]
PIPES_AIC = ["mac", "scalar", "mte1", "mte2", "fixpipe"]
PIPES_AIV = ["vec", "scalar", "mte2", "mte3"]
METRICS = {
    "PipeUtilization": "ACL_AICORE_PIPE_UTILIZATION",
    "MemoryUB": "ACL_AICORE_MEMORY_UB",
    "AiCoreNone": "ACL_AICORE_NONE",
}
# Name, type, core, duration in ns. The AI_CPU kernel has no core counters, as on real devices.
OPERATORS = [
    ("aclnnMm_MatMulV2_MatMulV2", "MatMulV2", "AI_CORE", 41_238),
    ("aclnnAdd_AddAiCore_Add", "Add", "AI_VECTOR_CORE", 6_502),
    ("aclnnSilu_SiluAiCore_Swish", "Swish", "AI_VECTOR_CORE", 5_377),
    ("aclnnFlashAttention", "FlashAttentionScore", "MIX_AIC", 88_041),
    ("aclnnIndex_IndexAiCpu_Index", "Index", "AI_CPU", 19_764),
]
GAP_NS = 1_731
FLOW = {"name": "HostToDevice", "cat": "HostToDevice"}


@dataclass(frozen=True)
class Kernel:
    """One row of kernel_details.csv; times in ns, `step` None for a kernel outside of every step."""

    step: int | None
    name: str
    type: str
    core: str
    start: int
    duration: int


@dataclass(frozen=True)
class Profile:
    """What is to be written. `started` is when the profiler was switched on, in seconds since the epoch."""

    chip: str = "910B"  # 910A, 910B or 950: the column families
    device_column: bool = True  # CANN 8.3 and later
    level: str = "Level1"
    metrics: str = "PipeUtilization"
    export: tuple[str, ...] = ("text",)
    steps: int = 5
    skip_first: int = 0
    warmup: int = 1
    scheduled: bool = True  # False: start() and stop(), one capture without steps
    cpu: bool = True
    kernels: int = 10  # per step
    rank: int | None = None
    device: int = 0
    collectives: bool = False
    started: float = 1_770_190_089.251
    versions: tuple[str, str] = ("2.7.1", "8.3.RC1")
    warm: bool = True  # False: the first step compiles operators

    @property
    def with_steps(self) -> bool:
        return self.scheduled and self.cpu

    @property
    def first_step(self) -> int:
        return self.skip_first + self.warmup

    def step_start(self, index: int) -> int:
        """Host time at which active step `index` begins, in ns."""
        length = self.kernels * 60_000 + 1_000_000
        return int(self.started * 1e9) + 50_000_000 + index * length + (0 if self.warm or not index else 80_000_000)

    def timeline(self) -> list[Kernel]:
        kernels = []
        for index in range(self.steps):
            now = self.step_start(index) + 300_000
            step = self.first_step + index
            for count in range(self.kernels):
                name, kind, core, duration = OPERATORS[count % len(OPERATORS)]
                if self.level == "Level0":
                    kind, core = "N/A", "N/A"
                kernels.append(Kernel(step, name, kind, core, now, duration))
                now += duration + GAP_NS
            if self.collectives:
                last = kernels[-1]
                start = last.start + last.duration // 2
                kernels.append(Kernel(step, f"hcom_allReduce__{index}", "hcom_allReduce_", "HCCL", start, 70_003))
        return kernels


def us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def kernel_columns(profile: Profile) -> list[str]:
    """Column names by chip and level: 7 to 9 at Level0, 36 on 910A, 46 or 47 on 910B, 49 on 950."""
    head = ["Step Id"] if profile.with_steps else []
    head += ["Device_id"] if profile.device_column else []
    if profile.level == "Level0":
        return [*head, *(name for name in BASE if name != "OP State"), "Block Dim"]
    old = profile.chip == "910A"
    block = ["Block Dim"] if old else ["Block Dim", "Mix Block Dim"]
    names = [*head, "Model ID", "Task ID", "Stream ID", *BASE, *block, "HF32 Eligible", *SHAPES]
    if not old:
        names.append("Context ID")
    if profile.metrics == "AiCoreNone":
        return names
    names.append("aicore_time(us)")
    if profile.metrics != "PipeUtilization":
        return [*names, "aic_total_cycles", "aic_ub_read_bw_vector(GB/s)"]

    def pipes(prefix: str, pipes: list[str]) -> list[str]:
        return [prefix + pipe + end for pipe in pipes for end in ("_time(us)", "_ratio")]

    if old:
        return [
            *names,
            "total_cycles",
            *pipes("", PIPES_910A),
            "icache_miss_rate",
            "memory_bound",
            "cube_utilization(%)",
        ]
    aic = [*PIPES_AIC[:4], "mte3", *PIPES_AIC[4:]] if profile.chip == "950" else PIPES_AIC
    names += ["aic_total_cycles", *pipes("aic_", aic), "aic_icache_miss_rate"]
    names += ["aiv_time(us)", "aiv_total_cycles", *pipes("aiv_", PIPES_AIV), "aiv_icache_miss_rate"]
    return [*names, "cube_utilization(%)"]


def _counter(column: str, kernel: Kernel) -> str:
    """A core counter: N/A off the AI cores, 0.0 on the core that the kernel does not use."""
    if kernel.core not in ("AI_CORE", "AI_VECTOR_CORE", "MIX_AIC"):
        return "N/A"
    used = {"AI_CORE": "aic_", "AI_VECTOR_CORE": "aiv_"}.get(kernel.core, "")
    if column.startswith(("aic_", "aiv_")) and not column.startswith(used):
        return "0.0"
    return f"0.{kernel.duration % 997:03d}" if column.endswith("_ratio") else us(kernel.duration // 3)


def kernel_rows(profile: Profile, kernels: list[Kernel]) -> list[list[str]]:
    columns = kernel_columns(profile)
    rows = []
    for number, kernel in enumerate(kernels):
        cells = {
            "Step Id": "" if kernel.step is None else str(kernel.step),
            "Device_id": str(profile.device),
            "Model ID": "4294967295",
            "Task ID": str(7000 + number),
            "Stream ID": "2",
            "Name": kernel.name,
            "Type": kernel.type,
            "OP State": "dynamic",
            "Accelerator Core": kernel.core,
            "Start Time(us)": us(kernel.start) + "\t",
            "Duration(us)": us(kernel.duration),
            "Wait Time(us)": us(GAP_NS),
            "Block Dim": "20",
            "Mix Block Dim": "0",
            "HF32 Eligible": "NO",
            "Context ID": "N/A",
            **dict.fromkeys(SHAPES, "N/A"),
            "Input Shapes": '"128,4096;4096,4096"',
        }
        rows.append([cells[name] if name in cells else _counter(name, kernel) for name in columns])
    return rows


def step_rows(profile: Profile, kernels: list[Kernel]) -> list[list[str]]:
    """step_trace_time.csv as torch_npu writes it: floats, hence the digits behind the third decimal."""
    rows = []
    for step in sorted({kernel.step for kernel in kernels}) if profile.with_steps else [None]:
        mine = [kernel for kernel in kernels if step is None or kernel.step == step]
        compute = sum(kernel.duration for kernel in mine if kernel.core != "HCCL")
        collective = sum(kernel.duration for kernel in mine if kernel.core == "HCCL")
        # By construction a collective starts in the middle of the kernel before it.
        hidden = [mine[index - 1] for index, kernel in enumerate(mine) if kernel.core == "HCCL"]
        overlapped = sum(kernel.duration - kernel.duration // 2 for kernel in hidden)
        stage = max(kernel.start + kernel.duration for kernel in mine) - mine[0].start
        free = stage - compute - collective + overlapped
        preparing = 300_000
        times = [compute, collective - overlapped, overlapped, collective, free, stage, 0, collective - overlapped]
        cells = [repr(value / 1000) for value in [*times, preparing]]
        head = [str(profile.device)] if profile.device_column else []
        rows.append([*head, "" if step is None else str(step), *cells])
    return rows


STEP_COLUMNS = [
    "Step",
    "Computing",
    "Communication(Not Overlapped)",
    "Overlapped",
    "Communication",
    "Free",
    "Stage",
    "Bubble",
    "Communication(Not Overlapped and Exclude Receive)",
    "Preparing",
]


OPERATOR_COLUMNS = [
    "Name",
    "Input Shapes",
    "Call Stack",
    *(
        f"{side} {what} Duration{cores}(us)"
        for side, cores in (("Host", ""), ("Device", ""), ("Device", " With AICore"))
        for what in ("Self", "Total")
    ),
]


def op_rows(profile: Profile, kernels: list[Kernel]) -> list[list[str]]:
    compute = [kernel for kernel in kernels if kernel.core != "HCCL"]
    whole = sum(kernel.duration for kernel in compute)
    rows = []
    for kind, core in sorted({(kernel.type, kernel.core) for kernel in compute}):
        times = [kernel.duration for kernel in compute if kernel.type == kind]
        statistic = [us(sum(times)), us(min(times)), us(sum(times) // len(times)), us(max(times))]
        head = [str(profile.device)] if profile.device_column else []
        rows.append([*head, kind, core, str(len(times)), *statistic, f"{100 * sum(times) / whole:.3f}"])
    return rows


def api_rows(profile: Profile, kernels: list[Kernel]) -> list[list[str]]:
    head = ["host"] if profile.device_column else []
    total = len(kernels) * 12_345
    launch = ["acl", "aclopExecuteV2", us(total), str(len(kernels)), us(12_345), us(12_345), us(12_345), "0.0"]
    return [[*head, *launch], [*head, "runtime", "StreamSynchronize", "20.001", "3", "6.667", "6.001", "7.5", "0.38"]]


def trace_events(profile: Profile, kernels: list[Kernel]) -> list[dict[str, Any]]:
    """The timeline: host first, then the device part, as the two stages of the parser append them."""
    python, cann, hardware = 4711, 88032, 88128
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": python, "args": {"name": "Python"}}]
    if profile.with_steps:
        for index in range(profile.steps):
            start, end = profile.step_start(index), profile.step_start(index + 1)
            name = f"ProfilerStep#{profile.first_step + index}"
            events.append(
                {"ph": "X", "name": name, "cat": "cpu_op", "pid": python, "tid": python, **span(start, end - start)}
            )
    for pid, name in ((cann, "CANN"), (hardware, "Ascend Hardware"), (88256, "Overlap Analysis")):
        events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
        label = "CPU" if name == "CANN" else f"NPU {profile.device}"
        events.append({"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": label}})
    for number, kernel in enumerate(kernels):
        launch = kernel.start - 200_000
        if profile.level != "Level0":
            api = {"name": "AscendCL@aclopCompileAndExecute", "ph": "X", "pid": cann, "tid": 9}
            compile_ns = 78_000_000 if not profile.warm and not number else 93_000
            events.append({**api, **span(launch, compile_ns), "args": {"connection_id": number}})
        events.append({**FLOW, "ph": "s", "id": str(number), "pid": cann, "tid": 9, "ts": us(launch)})
        events.append({**FLOW, "ph": "f", "id": str(number), "pid": hardware, "tid": 2, "ts": us(kernel.start)})
        task = {"name": kernel.name, "ph": "X", "pid": hardware, "tid": 2, "args": {"Task Type": kernel.core}}
        events.append({**task, **span(kernel.start, kernel.duration)})
    return events


def span(start: int, duration: int) -> dict[str, Any]:
    return {"ts": us(start), "dur": duration / 1000}


def info(profile: Profile, kernels: list[Kernel]) -> dict[str, Any]:
    """profiler_info.json, as far as anybody reads it."""
    schedule = {
        "wait": 0,
        "active": profile.steps,
        "warmup": profile.warmup,
        "repeat": 1,
        "skip_first": profile.skip_first,
    }
    end = max(kernel.start + kernel.duration for kernel in kernels) + 5_000_000
    document: dict[str, Any] = {
        "config": {
            "common_config": {
                "activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"]
                if profile.cpu
                else ["ProfilerActivity.NPU"],
                "schedule": schedule if profile.scheduled else {},
                "record_shapes": False,
                "profile_memory": False,
            },
            "experimental_config": {
                "_profiler_level": profile.level,
                "_aic_metrics": METRICS["AiCoreNone" if profile.level == "Level0" else profile.metrics],
                "_export_type": list(profile.export),
            },
        },
        "start_info": {"freq": 100, "start_cnt": 1, "start_monotonic": 1_000_000_000},
        "end_info": {
            "collectionTimeEnd": end,
            "MonotonicTimeEnd": 1_000_000_000 + end - int(profile.started * 1e9),
        },
        "torch_npu_version": profile.versions[0],
        "cann_version": profile.versions[1],
    }
    document["rank_id"] = -1 if profile.rank is None else profile.rank
    return document


def write_csv(path: Path, columns: list[str], rows: list[list[str]], newline: str = "\n") -> None:
    """Nothing at all when there are no rows, as torch_npu does."""
    if rows:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator=newline).writerows([columns, *rows])


def write_database(path: Path, profile: Profile, kernels: list[Kernel]) -> None:
    """ascend_pytorch_profiler*.db with the tables that the checks look at."""
    tables = {
        "STRING_IDS": (["id", "value"], [(1, "aic_mac_ratio"), (2, "MatMulV2")]),
        "TASK": (
            ["startNs", "endNs", "globalTaskId"],
            [(k.start, k.start + k.duration, n) for n, k in enumerate(kernels)],
        ),
        "COMPUTE_TASK_INFO": (["name", "globalTaskId"], [(2, n) for n in range(len(kernels))]),
        "NPU_INFO": (["id", "name"], [(profile.device, "Ascend910A" if profile.chip == "910A" else "Ascend910B3")]),
        "RANK_DEVICE_MAP": (["rankId", "deviceId"], [(-1 if profile.rank is None else profile.rank, profile.device)]),
    }
    if profile.level != "Level0":
        tables["CANN_API"] = (
            ["startNs", "endNs", "name"],
            [(k.start - 200_000, k.start - 100_000, 2) for k in kernels],
        )
        if profile.chip != "910A":  # as in a real export
            tables["TASK_PMU_INFO"] = (["globalTaskId", "name", "value"], [(n, 1, 0.25) for n in range(len(kernels))])
    if profile.with_steps:
        steps = [
            (profile.first_step + i, profile.step_start(i), profile.step_start(i + 1)) for i in range(profile.steps)
        ]
        tables["STEP_TIME"] = (["id", "startNs", "endNs"], steps)
    connection = sqlite3.connect(str(path))
    with connection:
        for name, (columns, rows) in tables.items():
            connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)  # noqa: S608 - names from above
    connection.close()


def write(parent: Path, profile: Profile | None = None, **changes: Any) -> Path:
    """Write a profile directory below `parent` and return it. `changes` are fields of Profile."""
    profile = replace(profile or Profile(), **changes)
    stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime(profile.started)) + f"{int(profile.started * 1000) % 1000:03d}"
    directory = parent / f"ascend01_{4711 + (profile.rank or 0)}_{stamp}_ascend_pt"
    output = directory / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    kernels = profile.timeline()
    suffix = "" if profile.rank is None else f"_{profile.rank}"
    (directory / f"profiler_info{suffix}.json").write_text(json.dumps(info(profile, kernels), indent=4))
    (directory / "profiler_metadata.json").write_text(json.dumps({"ENV_VARIABLES": {"ASCEND_GLOBAL_LOG_LEVEL": ""}}))
    if "text" in profile.export:
        write_text(output, profile, kernels)
    if "db" in profile.export:
        write_database(output / f"ascend_pytorch_profiler{suffix}.db", profile, kernels)
    return directory


def write_text(output: Path, profile: Profile, kernels: list[Kernel]) -> None:
    device = ["Device_id"] if profile.device_column else []
    write_csv(output / "kernel_details.csv", kernel_columns(profile), kernel_rows(profile, kernels), "\r\n")
    write_csv(output / "step_trace_time.csv", device + STEP_COLUMNS, step_rows(profile, kernels), "\r\n")
    (output / "trace_view.json").write_text(json.dumps(trace_events(profile, kernels)))
    if profile.level == "Level0":
        return
    statistic = [
        "OP Type",
        "Core Type",
        "Count",
        "Total Time(us)",
        "Min Time(us)",
        "Avg Time(us)",
        "Max Time(us)",
        "Ratio(%)",
    ]
    write_csv(output / "op_statistic.csv", device + statistic, op_rows(profile, kernels))
    api = ["Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance"]
    write_csv(output / "api_statistic.csv", device + api, api_rows(profile, kernels))
    if profile.collectives:
        (output / "communication.json").write_text(json.dumps(collectives(kernels)))
        matrix = {f"step{profile.first_step}": {"p2p": {}, "collective": {}}}
        (output / "communication_matrix.json").write_text(json.dumps(matrix))
    if profile.cpu:
        stack = "/home/user/model.py(12): forward;\n/home/user/run.py(3): <module>"
        times = ["12.5", "15.0", "41.238", "41.238", "41.238", "41.238"]
        details = [["aten::mm", "128,4096;\n4096,4096", stack, *times]] * 3
        write_csv(output / "operator_details.csv", OPERATOR_COLUMNS, details, "\r\n")


def collectives(kernels: list[Kernel]) -> dict[str, Any]:
    """communication.json: starts are floats of an epoch in microseconds."""
    steps: dict[str, Any] = {}
    for kernel in kernels:
        if kernel.core == "HCCL":
            times = {"Start Timestamp(us)": kernel.start / 1000, "Elapse Time(ms)": kernel.duration / 1e6}
            step = steps.setdefault(f"step{kernel.step}", {"p2p": {}, "collective": {}})
            step["collective"][f"{kernel.name}@1"] = {"Communication Time Info": times}
            step["collective"]["Total Op Info"] = {"Communication Time Info": {"Start Timestamp(us)": 0}}
    return steps


def request(profile: Profile, phase: str = "decode") -> dict[str, Any]:
    """What a collector that asked for `profile` expects, with the record of a sound warm-up."""
    return {
        "level": profile.level,
        "aic_metrics": profile.metrics,
        "export": list(profile.export),
        "steps": {phase: profile.steps},
        "ranks": [profile.rank or 0],
        "since": profile.started - 1,
        "warmup": {phase: {"warmup_seconds": [0.9, 0.012], "step_seconds": [0.013, 0.012, 0.012], "recompiles": 0}},
    }
