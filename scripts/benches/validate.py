"""`collect-remote validate` of a whole profile, against `json.load` of its trace alone; and the memory of both."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from . import made
from .sides import Ratio, table

MIB = 1 << 20
TRACE = 1024 * MIB
SAMPLE_EVERY_S = 0.01
VALIDATE = [str(Path(sys.executable).with_name("collect-remote")), "validate", "--json"]
LOAD = [sys.executable, "-c", "import json, sys; json.load(open(sys.argv[1]))"]


def run(rounds: int) -> str:
    with tempfile.TemporaryDirectory(prefix="collect-remote-bench-") as directory:
        profile = made.profile(Path(directory), TRACE)
        trace = profile / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
        sides = {"json.load": [*LOAD, str(trace)], "validate": [*VALIDATE, str(profile)]}
        seconds, memory = [], dict.fromkeys(sides, 0)
        for _ in range(rounds):
            seconds.append({})
            for name, words in sides.items():
                seconds[-1][name], peak = measured(words)
                memory[name] = max(memory[name], peak)
        told = ", ".join(f"{name} {peak / MIB:.0f} MiB" for name, peak in memory.items())
        size = trace.stat().st_size
    goal = Ratio("json.load", "validate", 2.0)
    return f"A trace of {size / MIB:.0f} MiB and its tables. Memory of all processes at its peak: {told}.\n\n" + table(
        seconds, [goal], size
    )


def measured(words: list[str]) -> tuple[float, int]:
    """Seconds, and the largest sum of resident bytes of the process and its descendants."""
    started, peak = time.perf_counter(), 0
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(resident, descendants(process.pid))))
            time.sleep(SAMPLE_EVERY_S)
        took = time.perf_counter() - started
        assert process.stdout is not None
        answer = process.stdout.read()
    if process.returncode not in (0, 7) or b'"fail"' in answer:
        sys.exit(f"error: {words} ended with {process.returncode}: {answer.decode()}")
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
