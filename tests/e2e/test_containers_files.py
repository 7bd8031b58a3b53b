"""Runs in containers that are left alone, and what they leave: found again, stopped, fetched, owned, nothing else."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from boxes import box, inside, nothing_left
from collect_agent.npu import lease
from harness import Tool, leases
from simhost import SimHost
from simhost.containers import Container

Start = Callable[..., SimHost]
GATED = """
import os, time
import torch

def load(device, options):
    while not os.path.exists("/tmp/go"):
        time.sleep(0.05)
    return torch.ones(4, 4).to(device)

def forward(state):
    return state @ state
"""


@pytest.fixture
def ascend(host: Start) -> SimHost:
    return host(container_engine="docker")


def gated(tool: Tool, host: SimHost, **keys: str) -> None:
    """A model that waits inside the container for /tmp/go."""
    (tool.directory / "gated.py").write_text(GATED)
    inside(tool, host, models={"gated": {"adapter": "./gated.py"}}, **keys)


def detach(tool: Tool, *arguments: str, model: str = "gated") -> str:
    outcome = tool.collect("--detach", *arguments, model=model)
    assert outcome.status == 0, outcome.err
    return str(outcome.document["run_id"])


def state(tool: Tool, run: str) -> str:
    found = {entry["run"]: entry["state"] for entry in tool("runs", "--host", "ascend01", "--json").document["runs"]}
    return str(found[run])


def finished(tool: Tool, run: str) -> None:
    deadline = time.monotonic() + 60
    while state(tool, run) != "finished":
        assert time.monotonic() < deadline, state(tool, run)


def test_a_run_that_is_left_alone_and_gone_on_with(ascend: SimHost, tool: Tool, tmp_path: Path) -> None:
    container = box(ascend)
    gated(tool, ascend)
    run = detach(tool)
    assert state(tool, run) == "running"
    container.outside("/tmp/go").touch()
    outcome = tool("attach", run, "--host", "ascend01", "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.document["container"]["name"] == "vllm"
    assert not container.outside("/workspace/runs/runs").joinpath(run).exists()
    nothing_left(ascend, tmp_path)


def test_a_run_that_is_stopped_and_cleaned(ascend: SimHost, tool: Tool, tmp_path: Path) -> None:
    container = box(ascend)
    gated(tool, ascend)
    run = detach(tool)
    assert "is free" in tool("stop", run, "--host", "ascend01").out
    assert leases(tmp_path) == []
    assert state(tool, run) == "failed"
    assert tool("clean", "--host", "ascend01", "--json").document["removed"] == [run]
    assert list(container.outside("/workspace/runs/runs").iterdir()) == []
    nothing_left(ascend, tmp_path)


def test_a_run_that_is_left_alone_waits_for_its_device(
    ascend: SimHost, tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box(ascend, visible=[2])
    inside(tool, ascend)
    (device,) = tool.collect("--dry-run").document["devices"]
    monkeypatch.setenv(lease.DIRECTORY_VARIABLE, str(tmp_path / "leases-ascend01"))
    held = lease.take([{**device, "label": "NPU 2", "bus": device["bus_id"]}], "another", 60)
    run = detach(tool, "--wait", "10m", model="llama")
    assert state(tool, run) == "running"
    held.release()
    outcome = tool("attach", run, "--host", "ascend01", "--json", timeout=60)
    assert outcome.status == 0, outcome.err
    assert re.search("waiting for a device: .*leased by run another", outcome.err)
    assert [use.logic for use in ascend.uses()] == [2]
    nothing_left(ascend, tmp_path)


def owners(folder: Path) -> set[int]:
    return {path.lstat().st_uid for path in folder.rglob("*")}


def test_what_stays_on_a_mount_belongs_to_its_owner(ascend: SimHost, tool: Tool, tmp_path: Path) -> None:
    """Made by root in the container, because the parser wants it, and left to the user of the host."""
    shared = ascend.root / "shared"
    shared.mkdir()
    os.chown(shared, 1000, 1000)
    box(ascend, mounts={shared: "/data"})
    inside(tool, ascend, workdir="/data/profiling")
    run = detach(tool, model="llama")
    outcome = tool("--host", "ascend01", "--model", "llama", "--json")
    assert outcome.status == 0, outcome.err
    finished(tool, run)
    assert (shared / "profiling/runs" / run / "profile_l1.tar.gz").exists()
    assert owners(shared) == {1000}
    assert tool("attach", run, "--host", "ascend01").status == 0
    assert owners(tool.profiles) == {os.getuid()}
    assert owners(shared) == {1000}
    document = tool("doctor", "--host", "ascend01", "--json").document["hosts"][0]
    (check,) = [check for check in document["checks"] if check["id"] == "container-workdir"]
    assert check["message"] == f"/data/profiling lies in {shared} of the host (both sides show the same directory)"
    assert document["environment"]["container"]["mounts"][0]["proven"]


@pytest.mark.parametrize(("of_image", "of_inventory"), [("ascend", None), ("root", "ascend"), ("root", 1000)])
def test_another_user_inside(
    ascend: SimHost, tool: Tool, tmp_path: Path, of_image: str, of_inventory: str | int | None
) -> None:
    container = box(ascend, user=of_image)
    container.outside("/workspace").chmod(0o777)
    keys = {"container_user": of_inventory, "setup": "/home/root/Ascend/ascend-toolkit/set_env.sh"}
    inside(tool, ascend, **(keys if of_inventory else {}))
    run = detach(tool, model="llama")
    finished(tool, run)
    assert owners(container.outside("/workspace/runs")) == {1000}
    outcome = tool("attach", run, "--host", "ascend01", "--json")
    assert outcome.status == 0, outcome.err
    nothing_left(ascend, tmp_path)


def everything(host: SimHost, container: Container) -> dict[str, str]:
    """Every file of host and container, but for our directories and what the simulation keeps its accounts in."""
    ours = {host.home / "collect_remote", container.outside("/workspace/runs"), host.log, host.dir, container.dir}
    found = {}
    for folder, folders, files in os.walk(host.root):
        folders[:] = [name for name in folders if Path(folder, name) not in ours]
        for path in (Path(folder, name) for name in [*folders, *files]):
            status = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) and path not in ours else b""
            found[str(path)] = f"{status.st_mode:o} {status.st_uid} {hashlib.sha256(content).hexdigest()}"
    return found


@pytest.mark.parametrize(("fails", "status"), [(False, 0), (True, 6)])
def test_nothing_else_is_touched_on_either_side(
    ascend: SimHost, tool: Tool, tmp_path: Path, fails: bool, status: int
) -> None:
    container = box(ascend)
    does = "raise RuntimeError('no such layer')" if fails else "pass"
    (tool.directory / "mine.py").write_text(
        GATED.replace("time.sleep(0.05)", "break").replace("    while", f"    {does}\n    while")
    )
    inside(tool, ascend, models={"mine": {"adapter": "./mine.py"}})
    before = everything(ascend, container)
    assert tool.collect(model="mine").status == status
    assert tool("doctor", "--host", "ascend01").status == 0
    assert everything(ascend, container) == before
    kept = sorted(path.name for path in (ascend.home / "collect_remote").rglob("*"))
    assert [name.partition("-")[0] for name in kept] == ["agent", "collect_agent"]
    nothing_left(ascend, tmp_path)
