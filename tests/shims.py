"""Programs under the start-up shim, in Pythons of their own with the light runtime, and what their receipts say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from collect_agent import shim

LIGHT = Path(__file__).resolve().parent / "simhost" / "light"
PROFILER = {
    "level": 1,
    "aic_metrics": "PipeUtilization",
    "export": ["text"],
    "with_stack": False,
    "record_shapes": False,
    "profile_memory": False,
}
WINDOW = {"skip_first": 1, "wait": 0, "warmup": 1, "active": 3}
PHASES = [["prefill", "prefill"], ["decode", "decode"]]


class Ran(NamedTuple):
    """A program that has ended: what it printed, and what all its processes said."""

    status: int
    stdout: str
    stderr: str
    receipts: Path
    output: Path

    def said(self, word: str = "") -> list[dict[str, Any]]:
        """All lines, or those of a word, of all processes in the order of their time."""
        files = sorted(self.receipts.glob("*.jsonl")) if self.receipts.exists() else []
        lines = [dict(json.loads(line), file=path.stem) for path in files for line in path.read_text().splitlines()]
        return [line for line in sorted(lines, key=lambda line: line["time"]) if word in ("", line["say"])]

    def one(self, word: str) -> dict[str, Any]:
        (line,) = self.said(word)
        return line

    def states(self) -> list[str]:
        return [line["state"] for line in self.said("step")]

    def profiles(self) -> dict[str, int]:
        """{phase: directories below it}"""
        return {phase.name: len(list(phase.glob("*_ascend_pt"))) for phase in sorted(self.output.glob("*"))}

    def info(self, directory: str) -> tuple[str, dict[str, Any]]:
        """The name and content of profiler_info*.json: what torch_npu itself says of a recording."""
        (path,) = Path(directory).glob("profiler_info*.json")
        return path.name, json.loads(path.read_text())

    def untroubled(self) -> Ran:
        assert self.status == 0, self.stdout + self.stderr
        assert self.said("trouble") == []
        return self


class Shim:
    """An installed shim; `home` is where its programs run."""

    def __init__(self, home: Path, runtime: str = str(LIGHT), python: str = sys.executable, **env: str) -> None:
        self.home, self.python = home, python
        self.directory, self.receipts, self.output = (
            home / "run" / "shim",
            home / "run" / "receipts",
            home / "run" / "out",
        )
        shim.install(str(self.directory))
        path = {"PATH": os.environ["PATH"], "HOME": str(home), "ASCEND_HOME_PATH": str(home / "no-cann")}
        self.env = {**path, "PYTHONPATH": runtime, **env}

    def request(self, **more: Any) -> dict[str, Any]:
        wanted = {"output": str(self.output), "receipts": str(self.receipts), "gate": None, "profiler": PROFILER}
        windows = {"prefill": {**WINDOW, "skip_first": 0, "active": 1}, "decode": WINDOW}
        rest = {"windows": windows, "phase_by": PHASES, "phase": None, "ranks": None, "step_on": [], "watch": []}
        return {**wanted, **rest, **more}

    def environment(self, **more: Any) -> dict[str, str]:
        path = self.home / "run" / "request.json"
        path.write_text(json.dumps(self.request(**more)))
        return shim.environment(str(self.directory), str(path), self.env)

    def run(self, program: str, *arguments: str, then: str = "", env: Any = (), before: Any = (), **more: Any) -> Ran:
        """Run the text of a program, `then` behind it, with a request that differs from the usual one by `more`."""
        path = self.home / "program.py"
        path.write_text(textwrap.dedent(program) + textwrap.dedent(then))
        return self.start([*before, str(path), *arguments], {**self.environment(**more), **dict(env)})

    def start(self, arguments: list[str], env: dict[str, str]) -> Ran:
        done = subprocess.run(
            [self.python, *arguments], cwd=self.home, env=env, capture_output=True, text=True, timeout=120
        )
        return Ran(done.returncode, done.stdout, done.stderr, self.receipts, self.output)


def complaints(text: str) -> list[str]:
    """What torch_npu says of a schedule."""
    return re.findall(r"Incorrect schedule.*", text)
