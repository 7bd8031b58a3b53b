"""What breaks around a run in a container: nobody's device is shared, and nothing is left on either side."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boxes import STEADY, box, command_lines, inside, nothing_left, steady
from harness import Tool, gone, leases, one_error, read_until
from simhost import SimHost
from simhost.link import Link

Start = Callable[..., SimHost]


@pytest.fixture
def ascend(host: Start) -> SimHost:
    return host(container_engine="docker")


def begin(tool: Tool, until: str, *arguments: str) -> Any:
    """Start a collection of the steady model and read what it says up to the line with `until`."""
    process = tool.start("--host", "ascend01", "--model", "steady", "--json", *arguments)
    timer = threading.Timer(60.0, process.kill)
    timer.start()
    read_until(process, until)
    timer.cancel()
    return process


@pytest.mark.parametrize(
    ("until", "times"), [("loading the model", {"load": 30}), ("profiling: forward step 1", {"step": 0.5})]
)
def test_ctrl_c_stops_the_run_inside(
    ascend: SimHost, tool: Tool, tmp_path: Path, until: str, times: dict[str, float]
) -> None:
    box(ascend)
    steady(tool, ascend, **times)
    process = begin(tool, until)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "nothing of it is left and its device is free" in json.loads(out)["error"]["message"]
    assert leases(tmp_path) == []
    nothing_left(ascend, tmp_path)


def test_ctrl_c_while_it_waits_for_a_device(ascend: SimHost, tool: Tool, tmp_path: Path) -> None:
    box(ascend, visible=[2])
    ascend.set_state(processes=[{"logic": 2, "pid": 4711, "name": "python", "mb": 9000}])
    steady(tool, ascend)
    process = begin(tool, "waiting for a device: NPU 2 chip 0 (logic 2) busy", "--wait", "10m")
    assert leases(tmp_path) == []
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    nothing_left(ascend, tmp_path)


@pytest.mark.parametrize("victim", ["follow", "bridge", "start"])
def test_a_killed_client_of_the_engine_costs_nothing(ascend: SimHost, tool: Tool, tmp_path: Path, victim: str) -> None:
    """That of the run's start, of its follower, and that of its keeper on the host: none takes anything along."""
    box(ascend)
    steady(tool, ascend, step=0.3)
    process = begin(tool, "warming up")
    if victim == "bridge":
        (pid,) = command_lines(ascend, "exec", "bridge")
    else:
        (pid,) = command_lines(ascend, "exec", "sh")
    pid.kill()
    if victim == "follow":
        time.sleep(0.5)
        for other in command_lines(ascend, "exec", "sh"):
            other.kill()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert [(use.logic, use.beside) for use in ascend.uses()] == [(json.loads(out)["devices"][0]["logic"], None)]
    nothing_left(ascend, tmp_path)


LOGIN_BYTES = 6000  # the first login is through by then; one that fails is told and not persisted in
IMPATIENT = """
import sys
from collect_remote.cli.main import main
from collect_remote.collection import launch
launch.ORPHAN_S = 2.0
launch.ORPHAN_SLACK_S = 1.0
sys.exit(main(sys.argv[1:]))
"""


def test_a_killed_controller_leaves_an_orphan_that_ends_itself(ascend: SimHost, tool: Tool, tmp_path: Path) -> None:
    box(ascend)
    steady(tool, ascend, load=60)
    process = subprocess.Popen(
        [sys.executable, "-c", IMPATIENT, "--host", "ascend01", "--model", "steady", "--reconnect-for", "1s"],
        cwd=tool.directory,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stderr is not None
    assert any("loading the model" in line for line in process.stderr)
    process.kill()
    process.communicate()
    assert len(leases(tmp_path)) == 1
    assert gone(ascend.processes, patience_s=30)
    nothing_left(ascend, tmp_path)


def test_a_controller_killed_in_the_survey_leaves_nothing_inside(ascend: SimHost, tool: Tool, tmp_path: Path) -> None:
    container = box(ascend, npu_smi_delay=60)
    steady(tool, ascend)
    process = begin(tool, "looking at the host")
    until(lambda: len(container.processes()) > 2)
    process.kill()
    process.communicate()
    assert gone(ascend.processes, patience_s=10)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.mark.parametrize("seed", [1, 2])
def test_cuts_at_random_moments_start_one_run_on_one_device(
    ascend: SimHost, tool: Tool, tmp_path: Path, seed: int
) -> None:
    box(ascend)
    with Link(ascend.address, ascend.port) as link:
        steady(tool, ascend, step=0.3, port=link.port)
        process = tool.start("--host", "ascend01", "--model", "steady", "--json")
        until(lambda: link.to_client > LOGIN_BYTES or process.poll() is not None)
        link.cut_at_random(random.Random(seed), every_s=0.5, times=8)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    (device,) = json.loads(out)["devices"]
    assert [(use.logic, use.beside) for use in ascend.uses()] == [(device["logic"], None)]
    nothing_left(ascend, tmp_path)


def test_a_container_that_stops_takes_its_run_along(ascend: SimHost, tool: Tool, tmp_path: Path) -> None:
    container = box(ascend)
    steady(tool, ascend, load=60)
    process = begin(tool, "loading the model")
    container.stop()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 6, err
    error = json.loads(out)["error"]
    assert error["message"].startswith("during the run the container vllm is not running")
    assert "`docker start vllm`" in error["remedy"]
    nothing_left(ascend, tmp_path)
    container.start()
    # Where it counts its pids anew, the supervisor might live in another container, until half a minute has passed.
    (sign,) = container.outside("/workspace/runs/runs").glob("*/pid.json")
    os.utime(sign, (time.time() - 31,) * 2)
    (run,) = tool("runs", "--host", "ascend01", "--json").document["runs"]
    assert run["state"] == "orphaned"


def test_an_engine_that_is_away_for_a_moment_costs_nothing(ascend: SimHost, tool: Tool, tmp_path: Path) -> None:
    box(ascend)
    steady(tool, ascend, step=0.5)
    process = begin(tool, "warming up")
    ascend.set_state(container_daemon="down")
    for client in command_lines(ascend, "exec"):
        client.kill()
    time.sleep(1.0)
    assert len(leases(tmp_path)) == 1
    ascend.set_state(container_daemon="works")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    nothing_left(ascend, tmp_path)


def test_a_run_that_cannot_start_leaves_nothing(ascend: SimHost, tool: Tool, tmp_path: Path) -> None:
    container = box(ascend)
    inside(tool, ascend)
    container.outside("/workspace/runs").mkdir()
    container.outside("/workspace/runs/runs").write_text("in the way of the directory of that name")
    one_error(tool.collect(), 5, message="/workspace/runs/runs is not a directory", remedy="`workdir`")
    nothing_left(ascend, tmp_path)


def test_host_and_containers_never_get_the_same_device(host: Start, tool: Tool, tmp_path: Path) -> None:
    """Four collectors on the host and four in each of two containers, which have other devices in common."""
    ascend = host(container_engine="docker", npus=3)
    box(ascend, "one", visible=[0, 1])
    box(ascend, "two", visible=[1, 2])
    (tool.directory / "steady.py").write_text(STEADY.format(load=0, step=0.05))
    entry = ascend.inventory_entry()
    boxed = {name: {**entry, "container": name, "workdir": "/workspace/runs"} for name in ("one", "two")}
    tool.inventory(ascend, models={"steady": {"adapter": "./steady.py"}}, entries=boxed)
    names = ["ascend01", "one", "two"] * 3
    running = [tool.start("--host", name, "--model", "steady", "--json", "--wait", "10m") for name in names]
    done = [process.communicate(timeout=300) for process in running]
    failed = "\n".join(err for process, (_, err) in zip(running, done, strict=True) if process.returncode)
    assert [process.returncode for process in running] == [0] * len(names), failed
    assert len(ascend.uses()) == len(names)
    assert [use.beside for use in ascend.uses()] == [None] * len(names)
    nothing_left(ascend, tmp_path)


def test_a_lease_of_another_is_named(ascend: SimHost, tool: Tool, tmp_path: Path) -> None:
    box(ascend, visible=[3])
    steady(tool, ascend, load=30)
    process = begin(tool, "loading the model")
    outcome = tool("--host", "ascend01", "--model", "steady", "--json", "--phase", "forward")
    one_error(outcome, 4, message="NPU 3 chip 0 .logic 3. (is leased by run|busy)", remedy="wait")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    nothing_left(ascend, tmp_path)
