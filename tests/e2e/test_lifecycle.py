"""Whoever ends first, controller, reader or follower: no run is left behind, and none is given up for less."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from harness import Tool, command_line, gone
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]

SLOW = """
import time
import torch

def load(device, options):
    return torch.ones(4, 4).to(device)

def forward(state):
    time.sleep(0.3)
    return state @ state
"""


def begin(tool: Tool, host: SimHost, until: str, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    (tool.directory / "slow.py").write_text(SLOW)
    tool.inventory(host, models={"slow": {"adapter": "./slow.py"}})
    process = tool.start("--host", "ascend01", "--model", "slow", "--json", *arguments)
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if until in line:
            return process, said
    raise AssertionError(said)


def follower(host: SimHost) -> int:
    """The host's process that copies events to us."""
    for pid in host.processes():
        command = command_line(pid).split(b"\0")
        if b"start" in command or b"follow" in command:
            return pid
    raise AssertionError("nobody follows")


def test_a_dead_follower_is_replaced(host: Start, tool: Tool) -> None:
    ascend = host()
    process, _ = begin(tool, ascend, "warming up")
    os.kill(follower(ascend), signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["phases"]["forward"]["step_kinds"] == ["forward"] * 5


def test_a_closed_terminal_ends_the_run(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    process, said = begin(tool, ascend, "warming up", "--steps", "50")
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, said + err
    assert_clean(ascend)


def test_a_reader_that_goes_away_does_not_end_the_run(host: Start, tool: Tool) -> None:
    ascend = host()
    (tool.directory / "slow.py").write_text(SLOW)
    tool.inventory(ascend, models={"slow": {"adapter": "./slow.py"}})
    command = f"{sys.executable} -m collect_remote --host ascend01 --model slow --json 2> >(head -n 3 >&2); exit $?"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tool.directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "valid"
    assert gone(ascend.processes)


@pytest.mark.parametrize("before", [["--json", "devices"], ["devices", "--json"]])
def test_options_stand_before_or_after_the_subcommand(host: Start, tool: Tool, before: list[str]) -> None:
    tool.inventory(host())
    outcome = tool("-i", "inventory.yaml", *before, "--host", "ascend01")
    assert outcome.status == 0, outcome.err
    assert isinstance(outcome.document, dict | list)


def test_options_are_not_guessed(tool: Tool) -> None:
    outcome = tool("--js", "--host", "ascend01")
    assert outcome.status == 2
    assert "--js" in outcome.err


def test_ctrl_c_before_anything_is_one_document_too(tool: Tool) -> None:
    os.mkfifo(tool.directory / "inventory.yaml")  # reading it waits
    process = tool.start("--host", "ascend01", "--model", "llama", "--json")
    try:
        process.communicate(timeout=1.5)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode in (2, 130)
    assert "error" in json.loads(out)
