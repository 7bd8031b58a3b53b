"""A host of a job is lost in the middle of a user's program: the others end soon, and it is the one that is named."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from test_nodes import JOB, TORCHRUN, runs

from collect_agent.events import Event
from collect_remote import Request, collect_job, load_inventory
from collect_remote.errors import UnreachableError
from harness import Outcome, Tool, end, gone, one_error, read_until
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]

# The ranks of the first host notice that those of the second have gone, as in a collective.
TRAIN = """
import os, time, torch, torch_npu

rank, peer = int(os.environ["RANK"]), {peer!r}
if rank == 2:
    with open(peer, "w") as file:
        file.write(str(os.getpid()))
x = torch.ones(8, 8).to("npu:" + os.environ["LOCAL_RANK"])
with torch_npu.profiler.profile(on_trace_ready=torch_npu.profiler.tensorboard_trace_handler("./prof")) as prof:
    for step in range(10 ** 6):
        time.sleep(0.2 if step > 4 else 0)
        if rank < 2 and step > 4 and not os.path.exists("/proc/" + open(peer).read()):
            raise RuntimeError("Connection closed by peer [127.0.0.1]")
        x = x @ x / 8
        prof.step()
"""


def trained(tool: Tool, hosts: tuple[SimHost, SimHost], tmp_path: Path) -> None:
    folders = [ascend.workdir.parent / "project" for ascend in hosts]
    for folder in folders:
        folder.mkdir()
        (folder / "train.py").write_text(TRAIN.format(peer=str(tmp_path / "peer")))
    model = {"route": "script", "project": str(folders[0]), "command": TORCHRUN}
    of_second = {"models": {"mine": {"project": str(folders[1])}}}
    tool.inventory(*hosts, models={"mine": model}, entries={"ascend02": of_second})


def begun(
    host: Start, tool: Tool, tmp_path: Path, moment: str
) -> tuple[tuple[SimHost, SimHost], Callable[[], Outcome]]:
    """Two hosts in the middle of a job, and how to wait for the end of it."""
    hosts = host(), host(name="ascend02")
    trained(tool, hosts, tmp_path)
    asked = ("--phase", "train", "--steps", "20", "--reconnect-for", "1s")
    process = tool.start("--host", "ascend01", "--model", "mine", "--json", *JOB, *asked)
    said = read_until(process, moment)
    return hosts, lambda: end(process, said)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_killed_supervisor(host: Start, tool: Tool, tmp_path: Path, assert_clean: Clean, lost: int) -> None:
    hosts, ended = begun(host, tool, tmp_path, f"ascend0{lost + 1}: profiling: train step 2")
    (run,) = (hosts[lost].workdir / "runs").iterdir()
    began = time.monotonic()
    os.kill(json.loads((run / "pid.json").read_text())["pid"], signal.SIGKILL)
    error = one_error(ended(), 6, message="the supervisor of the run died", remedy=str(run / "run.log"))
    assert time.monotonic() - began < 30
    assert error["host"] == f"ascend0{lost + 1}"
    assert_clean(*hosts)


def test_a_server_that_has_gone(host: Start, tool: Tool, tmp_path: Path) -> None:
    hosts, ended = begun(host, tool, tmp_path, "ascend02: profiling: train step 2")
    (run,) = runs(hosts[1])
    began = time.monotonic()
    hosts[1].kill_server()
    stop = f"run {run} may still be going on: `collect-remote stop {run} --host ascend02` ends it"
    error = one_error(ended(), 3, message="lost the connection and could not get it back", remedy=stop)
    assert time.monotonic() - began < 30
    assert error["host"] == "ascend02"
    assert gone(hosts[0].processes)
    assert hosts[0].held() == {}
    assert not (tool.profiles / ".incoming").exists()
    hosts[1].restart_server()
    stopped = tool("stop", run, "--host", "ascend02")
    assert stopped.status == 0, stopped.err
    assert gone(hosts[1].processes)
    assert hosts[1].held() == {}


def test_a_host_that_has_lost_its_power(
    host: Start, tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another notices it by its processes, long before nobody tries any more to get the connection back."""
    hosts = host(), host(name="ascend02")
    trained(tool, hosts, tmp_path)
    monkeypatch.chdir(tool.directory)
    monkeypatch.setattr("collect_remote.nodes.job.LEAVE_S", 2.0)
    known = load_inventory(Path("inventory.yaml"))
    request = Request("ascend01", "mine", phase="train", steps=40, device_count=2, nodes=("ascend01", "ascend02"))

    def told(event: Event) -> None:
        if event["node"] == "ascend02" and event["stage"] == "profile" and event["step"] == 2:
            hosts[1].stop()

    with pytest.raises(UnreachableError, match="ascend02: the connection broke, and on ascend01 .*by peer") as lost:
        collect_job(request, [known.host(name) for name in request.nodes], told)
    assert lost.value.host == "ascend02"
    assert "collect-remote stop" in lost.value.remedy
    assert gone(hosts[0].processes)
    assert hosts[0].held() == {}
