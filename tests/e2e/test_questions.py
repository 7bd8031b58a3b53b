"""At a terminal the tool asks what to record; in a pipeline it never does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

from checkouts import checkout
from harness import COLLECT_REMOTE, Tool
from simhost import SimHost

Start = Callable[..., SimHost]


def at_a_terminal(tool: Tool, typed: str, *arguments: str) -> tuple[int, str, str]:
    """(status, stdout, what the terminal shows) of the tool with a terminal as its input and stderr."""
    ours, its = os.openpty()
    os.write(ours, typed.encode())
    process = subprocess.Popen(
        [*COLLECT_REMOTE, "--host", "ascend01", "--model", "llama", *arguments],
        cwd=tool.directory,
        stdin=its,
        stdout=subprocess.PIPE,
        stderr=its,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "dumb"},
    )
    os.close(its)
    shown = b""
    try:
        while data := os.read(ours, 1 << 16):
            shown += data
    except OSError:  # the other end was closed: the tool has ended
        pass
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    return process.returncode, out.decode(), shown.decode()


def test_the_two_questions(host: Start, tool: Tool) -> None:
    tool.inventory(host())
    status, _, shown = at_a_terminal(tool, "separate\n6\n")
    assert status == 0, shown
    assert "phase (both, prefill, decode, separate) [both]: " in shown
    assert "decode steps [10]: " in shown
    (manifest,) = tool.profiles.glob("ascend01/llama/2*/manifest.json")
    phases = json.loads(manifest.read_text())["phases"]
    assert {phase: len(steps["step_seconds"]) for phase, steps in phases.items()} == {"prefill": 1, "decode": 6}


def test_nothing_is_asked_with_yes(host: Start, tool: Tool) -> None:
    tool.inventory(host())
    status, out, shown = at_a_terminal(tool, "", "--yes", "--dry-run")
    assert status == 0, shown
    assert "[both]" not in shown
    assert "steps {'both': 11}" in out


def test_a_script_is_offered_what_its_route_takes(host: Start, tool: Tool) -> None:
    ascend = host()
    project = ascend.home / "scripts"
    checkout(ascend, "scripts")
    model = {"route": "script", "project": str(project), "command": "python3 pretrain_profiled.py"}
    tool.inventory(ascend, models={"llama": model})
    status, _, shown = at_a_terminal(tool, "both\ntrain\n4\n")
    assert status == 0, shown
    assert shown.count("phase (forward, train, prefill, decode, separate) [forward]: ") == 2, "both is none of them"
    assert "train steps, or all [3]: " in shown
    tool.inventory(ascend, models={"llama": {**model, "route": "auto"}})
    status, out, shown = at_a_terminal(tool, "", "--dry-run")
    assert status == 0, shown
    assert "steps {'forward': 5}" in out, "the default of the route that was found"
