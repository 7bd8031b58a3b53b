"""The simulated msprof: CANN's analysis for data that the simulated profiler collected.

    msprof --export=on --output=<PROF directory> [--type=text|db]
    msprof --analyze=on --output=<PROF directory>
    msprof --help

Exports what the real one would leave for torch_npu in `mindstudio_profiler_output/`. Kernel times are
invented from the operators' run on the CPU (see `kernels`). Standard library only.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from typing import Any, Dict, Iterable, List, NamedTuple, Sequence

import kernels as model

# aclprofAicoreMetrics -> torch_npu's name of it.
METRICS = {
    0: "ACL_AICORE_ARITHMETIC_UTILIZATION",
    1: "ACL_AICORE_PIPE_UTILIZATION",
    2: "ACL_AICORE_MEMORY_BANDWIDTH",
    3: "ACL_AICORE_L0B_AND_WIDTH",
    4: "ACL_AICORE_RESOURCE_CONFLICT_RATIO",
    5: "ACL_AICORE_MEMORY_UB",
    6: "ACL_AICORE_L2_CACHE",
    8: "ACL_AICORE_MEMORY_ACCESS",
}
TASK_TIME = 0x2  # bit of the data type configuration: Level1 and above
# The real msprof writes for seconds after its first file. torch_npu relies on it: it looks for that file every
# 0.1 s and gives up when msprof and everything that waits for its end are done before it has seen the file.
LINGER_SECONDS = 0.5

HELP = """\
Usage:
      msprof [--help] [options]
      --output=<path>      the PROF_* directory to export or to analyze
      --export=<on|off>    export the collected data
      --analyze=<on|off>   analyze the communication
      --type=<text|db>     the form of the export: text or db
"""


class Collected(NamedTuple):
    """One PROF_* directory, read."""

    path: str
    pid: int
    device: int
    soc: str
    level: str
    metrics: str
    kernels: List[model.Kernel]


def _read_json(path: str) -> Any:
    with open(path, encoding="ascii") as file:
        return json.load(file)


def _tensors(described: Sequence[Any]) -> "tuple[model.Tensor, ...]":
    return tuple(model.Tensor(tuple(shape), dtype) for shape, dtype in described)


def read(path: str) -> Collected:
    """Raises OSError, ValueError, KeyError or StopIteration when `path` is no complete PROF_* directory."""
    device_dir = next(name for name in sorted(os.listdir(path)) if name.startswith("device_"))
    number = device_dir.split("_")[1]
    said = _read_json(os.path.join(path, device_dir, "simulation.json"))
    begun = _read_json(os.path.join(path, device_dir, "start_info." + number))
    offset = int(begun["collectionTimeBegin"]) * 1000 - int(begun["clockMonotonicRaw"])
    operators = []
    with open(os.path.join(path, "host", "data", "operators.jsonl"), encoding="ascii") as lines:
        for line in lines:
            name, start, end, thread, inputs, outputs = json.loads(line)
            operators.append(
                model.Operator(name, start + offset, end + offset, _tensors(inputs), _tensors(outputs), thread)
            )
    return Collected(
        path=path,
        pid=said["pid"],
        device=said["device"],
        soc=said["soc"],
        level="Level1" if said["what"] & TASK_TIME else "Level0",
        metrics=METRICS.get(said["metrics"], model.NO_METRICS),
        kernels=model.timeline(operators, device_id=said["device"]),
    )


def _write_csv(path: str, columns: Sequence[str], rows: Iterable[Dict[str, str]]) -> None:
    rows = list(rows)
    if not rows:
        return  # the real one writes no empty file either
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def export_text(data: Collected) -> None:
    """The timeline first: torch_npu starts to read when the first CSV is there."""
    stamp = time.strftime("%Y%m%d%H%M%S")
    parts = os.path.join(data.path, "mindstudio_profiler_output.part")
    os.makedirs(parts)

    def place(name: str, ending: str) -> str:
        return os.path.join(parts, "%s_%s.%s" % (name, stamp, ending))

    with open(place("msprof", "json"), "w", encoding="utf-8") as file:
        json.dump(model.timeline_events(data.kernels, data.pid, data.level), file)
    if data.level != "Level0":
        _write_csv(place("op_statistic", "csv"), model.OP_STATISTIC_COLUMNS, model.op_statistic_rows(data.kernels))
        _write_csv(place("api_statistic", "csv"), model.API_STATISTIC_COLUMNS, model.api_statistic_rows(data.kernels))
    columns = model.op_summary_columns(data.level, data.metrics)
    rows = (model.op_summary_row(kernel, data.level, data.metrics) for kernel in data.kernels)
    _write_csv(place("op_summary", "csv"), columns, rows)
    os.rename(parts, parts[: -len(".part")])


def main(arguments: Sequence[str]) -> int:
    if not arguments or "--help" in arguments:
        print(HELP, end="")
        return 0
    options = dict(item[2:].partition("=")[::2] for item in arguments if item.startswith("--"))
    path = options.get("output", "")
    if not os.path.isdir(path):
        print("[ERROR] The path of --output does not exist: %s" % path, file=sys.stderr)
        return 1
    if options.get("export") == "on":
        try:
            data = read(path)
        except (OSError, ValueError, KeyError, StopIteration) as error:
            print("[ERROR] No valid data in %s: %r" % (path, error), file=sys.stderr)
            return 1
        if options.get("type") == "db":
            import database

            database.export(data)
        else:
            export_text(data)
        time.sleep(LINGER_SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
