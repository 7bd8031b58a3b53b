"""Nothing on a host is touched but the run's directory and the agent's, whatever kind of run it was."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import Tool
from simhost import SimHost

Start = Callable[..., SimHost]

MODEL = """
import torch
import helper

def load(device, options):
    return torch.ones(4, 4).to(device)

def forward(state):
    if FAILS:
        raise RuntimeError("no such layer")
    return state @ state
"""


def everything(host: SimHost) -> dict[str, str]:
    """Every file and directory of the host with its mode, owner and digest; without what is ours and the server's."""
    ours = (host.workdir / "runs", host.workdir / "agent", host.root / "ssh", host.dir)
    found = {}
    for folder, folders, files in os.walk(host.root):
        folders[:] = [name for name in folders if Path(folder, name) not in ours]
        for name in [*folders, *files]:
            path = Path(folder, name)
            if path not in ours:
                status = path.lstat()
                digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
                found[str(path)] = f"{status.st_mode:o} {status.st_uid} {digest}"
    return found


def project(host: SimHost) -> str:
    """A directory of the user's with a module that the model imports."""
    (host.home / "project").mkdir()
    (host.home / "project" / "helper.py").write_text("VALUE = 1\n")
    return str(host.home / "project")


@pytest.mark.parametrize(
    ("arguments", "fails", "status"),
    [
        ((), False, 0),
        (("--phase", "forward", "--steps", "6"), False, 0),
        ((), True, 6),
        (("--dry-run",), False, 0),
        (("--device", "99"), False, 2),
    ],
    ids=["good", "phase", "model-raises", "dry-run", "no-such-device"],
)
def test_a_run_leaves_the_host_as_it_was(
    host: Start, tool: Tool, arguments: tuple[str, ...], fails: bool, status: int
) -> None:
    ascend = host()
    (tool.directory / "mine.py").write_text(f"FAILS = {fails}\n" + MODEL)
    path = project(ascend)
    tool.inventory(
        ascend, models={"mine": {"adapter": "./mine.py"}}, entries={"ascend01": {"env": {"PYTHONPATH": path}}}
    )
    before = everything(ascend)
    outcome = tool.collect(*arguments, model="mine")
    assert outcome.status == status, outcome.err
    assert everything(ascend) == before


def test_looking_and_managing_leave_nothing_at_all(host: Start, tool: Tool) -> None:
    ascend = host()
    tool.inventory(ascend)
    before = everything(ascend)
    for command in ("devices", "runs", "clean", "doctor"):
        assert tool(command, "--host", "ascend01").status == 0
    assert everything(ascend) == before
    assert not (ascend.workdir / "runs").exists()


def test_a_run_that_is_left_alone_and_one_that_is_stopped(host: Start, tool: Tool) -> None:
    ascend = host()
    (tool.directory / "mine.py").write_text("FAILS = False\n" + MODEL)
    tool.inventory(
        ascend,
        models={"mine": {"adapter": "./mine.py"}},
        entries={"ascend01": {"env": {"PYTHONPATH": project(ascend)}}},
    )
    before = everything(ascend)
    for command in ("attach", "stop"):
        run = tool.collect("--detach", model="mine").document["run_id"]
        assert tool(command, run, "--host", "ascend01").status == 0
    assert everything(ascend) == before
