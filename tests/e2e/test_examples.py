"""What stands in examples/ runs, as it stands there."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from harness import COLLECT_REMOTE, Tool
from simhost import SimHost

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Start = Callable[..., SimHost]


@pytest.fixture
def here(host: Start, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with an inventory of two hosts, one out of reach, and the command on the PATH."""
    good = host()
    tool.inventory(good, entries={"ascend02": {**good.inventory_entry(), "host_key": other_key(good)}})
    command = tool.directory / "bin" / "collect-remote"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {" ".join(COLLECT_REMOTE)} "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.chdir(tool.directory)
    return tool.directory


def other_key(host: SimHost) -> str:
    kind, key = host.host_key.split()[:2]
    return f"{kind} {key[:-4]}AAAA"


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], text=True, capture_output=True, check=False, timeout=120)


def test_the_shell_pipeline(here: Path) -> None:
    done = ran(str(EXAMPLES / "nightly.sh"), "tonight", "--phases", "decode")
    assert done.returncode == 9, done.stderr
    last, failed = done.stdout.splitlines()
    assert "FAILED 1 of 2 cells" in last
    assert failed.startswith("ascend02/llama/decode\tfailed\t")
    assert ran(str(EXAMPLES / "nightly.sh"), "tonight").stdout == done.stdout


def test_the_python_pipeline(here: Path) -> None:
    for day in ("today", "tomorrow"):
        done = ran(sys.executable, str(EXAMPLES / "pipeline.py"), "inventory.yaml", day, "today")
        assert done.returncode == 9, done.stderr
        assert done.stdout.startswith("ascend01/llama/decode: ")
        assert "ascend02/llama/decode failed" in done.stderr


def test_the_workflow_says_what_the_tool_understands(here: Path) -> None:
    steps = yaml.safe_load((EXAMPLES / "profile.yml").read_text())["jobs"]["sweep"]["steps"]
    lines = [step["run"] for step in steps if step.get("run", "").startswith("collect-remote")]
    assert len(lines) == 2
    done = ran("sh", "-c", lines[0].replace("--hosts a2", "--hosts ascend01"))
    assert done.returncode == 0, done.stderr
    summary = here / "summary.md"
    assert ran("env", f"GITHUB_STEP_SUMMARY={summary}", "sh", "-c", lines[1]).returncode == 0
    assert summary.read_text().endswith("1 of 1 cells valid\n")


def test_the_tasks(here: Path) -> None:
    tasks = module("tasks")
    known = json.loads(json.dumps(tasks.jobs("inventory.yaml", "all", "llama", "results")))
    with ProcessPoolExecutor(1) as scheduler:
        result = scheduler.submit(tasks.profile, known[0]).result()
        assert scheduler.submit(tasks.profile, known[0]).result() == result  # a retry brings nothing new
        assert len(scheduler.submit(tasks.step_seconds, result).result()) == 11
        with pytest.raises(RuntimeError, match="ascend02: "):
            scheduler.submit(tasks.profile, known[1]).result()


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found
