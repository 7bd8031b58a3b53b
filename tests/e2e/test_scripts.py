"""The names that existing pipelines call, and the Python API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pages
from collect_remote import Profile
from harness import Tool
from simhost import SimHost

Start = Callable[..., SimHost]
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def script(tool: Tool, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPTS / name, *arguments],
        cwd=tool.directory,
        text=True,
        capture_output=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_profile_template_is_what_the_tool_prints(tool: Tool) -> None:
    assert (SCRIPTS / "profile_template.py").read_text() == tool("template", "--phase", "both").out


def test_the_phase_switch_is_all_that_differs(tool: Tool) -> None:
    both, decode = (tool("template", "--phase", phase).out.splitlines() for phase in ("both", "decode"))
    assert [line for line, other in zip(both, decode, strict=True) if line != other] == [
        'PHASE = "both"  # prefill, decode, both (one window), separate (two profiles), forward'
    ]


def test_collect_profile(host: Start, tool: Tool) -> None:
    tool.inventory(host())
    done = script(tool, "collect_profile.py", "--host", "ascend01", "--model", "llama")
    assert done.returncode == 0, done.stderr
    assert (tool.profiles / "ascend01" / "llama" / "latest" / "profile_l1.tar.gz").is_file()


def test_pick_free_device(host: Start, tool: Tool) -> None:
    busy = [{"logic": logic, "pid": 4000 + logic, "name": "python", "mb": 9000} for logic in range(5)]
    tool.inventory(host(npus=6, processes=busy))
    assert script(tool, "pick_free_device.py", "ascend01").stdout == "5\n"
    none = script(tool, "pick_free_device.py", "nowhere")
    assert none.returncode == 2
    assert none.stderr.startswith("error: ")


def test_deploy_to_remote(host: Start, tool: Tool) -> None:
    ascend = host()
    tool.inventory(ascend)
    first, second = (script(tool, "deploy_to_remote.py", "ascend01").stdout.strip() for _ in range(2))
    assert first == second
    assert Path(first).parent == ascend.workdir / "agent"
    assert Path(first).is_file()


@pytest.mark.parametrize("name", ["pick_free_device.py", "deploy_to_remote.py"])
def test_a_script_without_a_host_explains_itself(tool: Tool, name: str) -> None:
    done = script(tool, name)
    assert done.returncode == 1
    assert name in done.stderr


@pytest.mark.parametrize("name", ["pick_free_device.py", "deploy_to_remote.py"])
def test_a_script_says_what_is_missing_and_where_it_failed(tool: Tool, name: str) -> None:
    bare = subprocess.run(
        [sys.executable, "-I", "-S", SCRIPTS / name, "h"], text=True, capture_output=True, check=False
    )
    assert bare.returncode == 1
    assert "pip install ." in bare.stderr
    assert "Traceback" not in bare.stderr
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1", "port": 1}})
    refused = script(tool, name, "ascend01")
    assert refused.returncode == 3
    assert refused.stderr.startswith("error: ascend01")
    assert "(while connect)" in refused.stderr


def test_the_python_api(
    host: Start, tool: Tool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As docs/results.md shows it."""
    tool.inventory(host())
    monkeypatch.chdir(tool.directory)
    made: dict[str, Any] = {}
    exec(pages.code("results.md")[0], made)  # noqa: S102 - our own page
    stages = capsys.readouterr().out.splitlines()
    assert stages[0] == "connect"
    assert stages[-2] == "publish"
    assert stages[-1].startswith("valid profiles/ascend01/llama/")
    profile = made["profile"]
    assert profile.archive.is_file()
    assert profile == Profile.at(profile.directory)
    steps = {row["Step Id"] for row in profile.rows("kernel_details.csv")}
    assert len(steps) == len(profile.manifest["phases"]["both"]["step_seconds"])
    with profile.open("profiler_info.json") as file:
        assert "end_info" in json.load(file)


def test_hosts_of_simhost_have_devices_of_their_own(tool: Tool) -> None:
    (tool.directory / "models.yaml").write_text("llama: {adapter: llama}\n")
    command = [sys.executable, SCRIPTS / "simhost", "--hosts", "2", "--models", "models.yaml"]
    with subprocess.Popen(
        [*command, "--inventory", "inventory.yaml"],
        cwd=tool.directory,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as hosts:
        assert hosts.stderr is not None
        try:
            assert b"2 host(s) up" in hosts.stderr.readline()
            done = tool("--host", "ascend01", "--nodes", "ascend02", "--model", "llama", "--device", "0")
            assert done.status == 0, done.err
        finally:
            hosts.terminate()
