"""What `collect-remote validate` costs, against `json.load` of the trace alone; in one run, on the same files.

    python scripts/bench_validate.py [--size MIB] [--rounds N] [--keep DIR]

The profile is made up: host and device events in the proportions of a public vLLM run (27 events of 200 bytes a
kernel), with the tables that belong to it. Memory is the resident set of all processes of a side together, at its peak.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

import profiles  # noqa: E402

MIB = 1 << 20
KERNELS_PER_STEP = 2000
SAMPLE_EVERY_S = 0.01
TOOL = [sys.executable, "-m", "collect_remote"]
LOAD = "import json, sys; json.load(open(sys.argv[1]))"
HOST = 3_096_504


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1024, help="of the trace, in MiB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="a directory for the profile, which is used again when it is there")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        place = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory = next(place.glob("*_ascend_pt"), None) or generate(place, options.size * MIB)
        compare(directory, options.rounds)
    return 0


def compare(directory: Path, rounds: int) -> None:
    output = directory / "ASCEND_PROFILER_OUTPUT"
    trace = output / "trace_view.json"
    tables = sum(path.stat().st_size for path in output.glob("*.csv"))
    print(f"trace {trace.stat().st_size / MIB:.0f} MiB, tables {tables / MIB:.0f} MiB", flush=True)
    sides = {
        "json.load": [sys.executable, "-c", LOAD, str(trace)],
        "validate": [*TOOL, "validate", "--json", str(directory)],
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    memory: dict[str, int] = dict.fromkeys(sides, 0)
    for _ in range(rounds):
        for name, command in sides.items():
            took, peak = measure(command)
            seconds[name].append(took)
            memory[name] = max(memory[name], peak)
        print("  ".join(f"{name} {times[-1]:6.2f} s" for name, times in seconds.items()), flush=True)
    for name, times in seconds.items():
        print(f"{name:10} median {statistics.median(times):6.2f} s, peak {memory[name] / MIB:7.1f} MiB")
    ratios = [load / ours for load, ours in zip(seconds["json.load"], seconds["validate"], strict=True)]
    print(f"json.load / validate: median {statistics.median(ratios):.2f}, {min(ratios):.2f} - {max(ratios):.2f}")


def measure(command: list[str]) -> tuple[float, int]:
    """Seconds, and the largest sum of resident bytes of the process and its descendants."""
    started, peak = time.perf_counter(), 0
    paths = os.pathsep.join(str(REPOSITORY / name) for name in ("controller", "agent"))
    environment = {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(resident, descendants(process.pid))))
            time.sleep(SAMPLE_EVERY_S)
        took = time.perf_counter() - started
        assert process.stdout is not None
        answer = process.stdout.read()
    if process.returncode not in (0, 7) or b'"fail"' in answer:
        raise SystemExit(f"{command} ended with {process.returncode}: {answer.decode()}")
    return took, peak


def descendants(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from descendants(int(child))


def resident(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    return 0


def generate(place: Path, size: int) -> Path:
    """A sound profile below `place` whose trace has about `size` bytes."""
    place.mkdir(parents=True, exist_ok=True)
    probe = profiles.Profile(steps=1, kernels=KERNELS_PER_STEP)
    kernels = probe.timeline()
    step = [*profiles.trace_events(probe, kernels), *(event for kernel in kernels for event in host_events(kernel, 0))]
    steps = max(3, round(size / len(json.dumps(step))))
    profile = profiles.Profile(steps=steps, kernels=KERNELS_PER_STEP)
    directory = profiles.write(place, profile)
    kernels = profile.timeline()
    with (directory / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").open("w") as file:
        file.write("[")
        for number, kernel in enumerate(kernels):
            file.write(json.dumps(list(host_events(kernel, number)))[1:-1] + ", ")
        file.write(json.dumps(profiles.trace_events(profile, kernels))[1:])
    return directory


def host_events(kernel: profiles.Kernel, number: int) -> Iterator[dict[str, Any]]:
    """What the host records around one kernel, in the forms of a real export."""
    moment = kernel.start - 400_000

    def piece(name: str, category: str | None, **more: Any) -> dict[str, Any]:
        nonlocal moment
        moment += 3_170
        event = {"ph": "X", "name": name, "pid": HOST, "tid": HOST, **profiles.span(moment, 2_310)}
        return {**event, **({"cat": category} if category else {}), **more}

    operator = {"Sequence number": -1, "Fwd thread id": 0}
    for count in range(5):
        yield piece(
            f"nn.Module: DecoderLayer_{count}", "python_function", args={"Python id": number, "Python parent id": 7}
        )
        yield piece("aten::empty_strided", "cpu_op", args=operator)
        yield piece("aten::linear", "cpu_op", args={**operator, "Input Dims": "1,4096;4096,4096"})
    yield piece("Enqueue", "enqueue", args={"correlation_id": number})
    yield piece("Dequeue@" + kernel.name, "dequeue", args={"correlation_id": number})
    for name, category in (("enqueue_to_dequeue", "async_task_queue"), ("torch_to_npu", "async_npu")):
        for end in "sf":
            flow = {"ph": end, "bp": "e", "name": name, "id": number, "pid": HOST, "tid": HOST}
            yield {**flow, "ts": profiles.us(kernel.start), "cat": category}
    yield piece("Node@launch", None, args={"Thread Id": HOST, "Mode": "launch", "level": "node", "id": str(number)})
    yield piece("Computing", None, args={"Task Type": "AI_CORE"})


if __name__ == "__main__":
    sys.exit(main())
