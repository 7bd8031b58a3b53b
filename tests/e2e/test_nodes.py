"""One job on several hosts: a run on each, ranks across them, one profile of all or nothing."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boxes import box, nothing_left
from checkouts import checkout, digests, pyyaml
from collect_remote import Host, Request, collect_job, load_inventory
from collect_remote.errors import ProfileInvalid, StorageError
from harness import Outcome, Tool, end, gone, one_error, read_until
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]

JOB = ("--nodes", "ascend02", "--devices", "2")
BUSY = [{"logic": n, "pid": 4711 + n, "name": "python", "mb": 9000} for n in range(7)]
# `rank` does `what` in its step number `at`; the others go on.
FAULTY = """
import os, time
import torch

calls = []

def load(device, options):
    assert device == "npu:" + os.environ["LOCAL_RANK"], device
    return torch.ones(4, 4).to(device)

def forward(state):
    calls.append(1)
    if len(calls) == {at} and os.environ["RANK"] in {ranks}:
        {what}
    return state @ state
"""
# Its ranks are told where they stand by the launcher, which has it from the words of the command.
TRAIN = """
import os, sys, torch, torch_npu

said = [os.environ[name] for name in ("NNODES", "NODE_RANK", "GROUP_RANK", "WORLD_SIZE", "MASTER_PORT")]
assert said == ["2", sys.argv[1], sys.argv[1], "4", sys.argv[2]], said
x = torch.ones(8, 8).to("npu:" + os.environ["LOCAL_RANK"])
with torch_npu.profiler.profile(on_trace_ready=torch_npu.profiler.tensorboard_trace_handler("./prof")) as prof:
    for step in range(20):
        x = x @ x / 8
        prof.step()
"""
TORCHRUN = (
    "python3 -m torch.distributed.run --nnodes={nodes} --node-rank={node_rank} --nproc-per-node=2 "
    "--master-addr={master_addr} --master-port={master_port} train.py {node_rank} {master_port}"
)


def two(host: Start, **second: Any) -> tuple[SimHost, SimHost]:
    return host(), host(name="ascend02", **second)


def faulty(tool: Tool, hosts: tuple[SimHost, ...], what: str, *ranks: int, at: int = 3) -> None:
    (tool.directory / "faulty.py").write_text(FAULTY.format(ranks=list(map(str, ranks)), what=what, at=at))
    tool.inventory(*hosts, models={"faulty": {"adapter": "./faulty.py"}})


def profiles(archive: Path) -> dict[str, list[str]]:
    """{phase: names of the files that tell a profile's rank}."""
    found: dict[str, list[str]] = {}
    with tarfile.open(archive) as tar:
        for name in tar.getnames():
            if "/profiler_info" in name:
                _, phase, directory, info = name.split("/")
                assert directory.endswith("_ascend_pt")
                found.setdefault(phase, []).append(info)
    return {phase: sorted(names) for phase, names in found.items()}


def runs(host: SimHost) -> list[str]:
    return [path.name for path in (host.workdir / "runs").glob("*")]


def test_one_profile_of_all_ranks(host: Start, tool: Tool) -> None:
    hosts = two(host)
    tool.inventory(*hosts)
    outcome = tool.collect(*JOB, "--phase", "separate")
    assert outcome.status == 0, outcome.err
    archive = tool.directory / outcome.document["archive"]["path"]
    assert archive.is_relative_to(tool.profiles / "ascend01" / "llama")
    names = [f"profiler_info_{rank}.json" for rank in range(4)]
    assert profiles(archive) == {"prefill": names, "decode": names}
    assert re.search(r"s  ascend02: profiling: decode step 10 of 10", outcome.err)
    manifest = json.loads((archive.parent / "manifest.json").read_text())
    assert manifest["expected"]["ranks"] == [0, 1, 2, 3]
    assert manifest["request"]["nodes"] == ["ascend01", "ascend02"]
    assert [(node["host"], node["ranks"]) for node in manifest["nodes"]] == [("ascend01", [0, 1]), ("ascend02", [2, 3])]
    assert [device["host"] for device in manifest["devices"]] == ["ascend01"] * 2 + ["ascend02"] * 2
    proof = manifest["proof"]
    assert [entry["rank"] for entry in proof["ranks"]] == [1, 2, 3]
    pids = [proof["pid"], *(entry["pid"] for entry in proof["ranks"])]
    for ascend, own in zip(hosts, (pids[:2], pids[2:]), strict=True):
        assert {use.pid for use in ascend.uses()} >= set(own)
        assert [moment["own"] for moment in proof["presence"] if moment["host"] == ascend.name] == [sorted(own)] * 3
    assert sorted(manifest["phases"]["decode"]["ranks"]) == ["1", "2", "3"]
    judged = [check["message"] for check in manifest["checks"] if check["id"] == "device-shared"]
    assert [message.partition(":")[0] for message in judged] == ["ascend01", "ascend02"]
    log = (archive.parent / "run.log").read_text()
    assert [line.split(",")[0] for line in log.splitlines() if line.startswith("--- ")] == [
        "--- ascend01",
        "--- ascend02",
    ]
    for ascend in hosts:
        assert gone(ascend.processes)
        assert ascend.held() == {}
        assert runs(ascend) == [], "what was brought is removed there"
    again = tool("validate", str(archive), "--json")
    assert again.status == 0, again.out


def trained(tool: Tool, hosts: tuple[SimHost, ...]) -> list[Path]:
    """A model whose project lies in another directory on each host; those directories."""
    folders = []
    for ascend in hosts:
        folders.append(ascend.workdir.parent / "project")
        folders[-1].mkdir()
        (folders[-1] / "train.py").write_text(TRAIN)
    model = {"route": "script", "project": str(folders[0]), "command": TORCHRUN}
    of_second = {"models": {"mine": {"project": str(folders[-1])}}}
    tool.inventory(*hosts, models={"mine": model}, entries={"ascend02": of_second} if len(hosts) > 1 else {})
    return folders


def test_any_script_over_two_hosts(host: Start, tool: Tool) -> None:
    hosts = two(host)
    folders = trained(tool, hosts)
    outcome = tool.collect(*JOB, "--phase", "train", model="mine")
    assert outcome.status == 0, outcome.err
    archive = tool.directory / outcome.document["archive"]["path"]
    assert profiles(archive) == {"train": [f"profiler_info_{rank}.json" for rank in range(4)]}
    assert [path.name for folder in folders for path in folder.iterdir()] == ["train.py"] * 2
    for ascend in hosts:
        assert gone(ascend.processes)
        assert runs(ascend) == []


def test_training_with_mindspeed_over_two_hosts(host: Start, tool: Tool, tmp_path: Path) -> None:
    packages = pyyaml(tmp_path)
    hosts = tuple(host(name=name, env=packages) for name in ("ascend01", "ascend02"))
    roots = [checkout(ascend, "mindspeed") for ascend in hosts]
    before = [digests(root) for root in roots]
    launcher = TORCHRUN.replace("train.py {node_rank} {master_port}", "pretrain_gpt.py --train-iters 30")
    model = {"route": "auto", "project": str(roots[0]), "command": launcher}
    of_second = {"models": {"job": {"project": str(roots[1])}}}
    tool.inventory(*hosts, models={"job": model}, entries={"ascend02": of_second})
    outcome = tool.collect(*JOB, "--ranks", "0,3", model="job")
    assert outcome.status == 0, outcome.err
    assert outcome.document["route"] == "mindspeed"
    archive = tool.directory / outcome.document["archive"]["path"]
    assert profiles(archive) == {"train": ["profiler_info_0.json", "profiler_info_3.json"]}
    assert [digests(root) for root in roots] == before


def test_some_ranks_of_every_host(host: Start, tool: Tool) -> None:
    trained(tool, two(host))
    outcome = tool.collect(*JOB, "--phase", "train", "--ranks", "1,2", model="mine")
    assert outcome.status == 0, outcome.err
    archive = tool.directory / outcome.document["archive"]["path"]
    assert profiles(archive) == {"train": ["profiler_info_1.json", "profiler_info_2.json"]}


def test_who_is_ready_first_waits_for_the_others(host: Start, tool: Tool) -> None:
    """Or their windows would not be open together, and the profiles not of one moment of the job."""
    hosts = two(host)
    faulty(tool, hosts, "pass")
    text = (tool.directory / "faulty.py").read_text()
    slow = "def load(device, options):\n    time.sleep(3 * (os.environ['RANK'] == '1'))"
    (tool.directory / "faulty.py").write_text(text.replace("def load(device, options):", slow))
    outcome = tool.collect("--nodes", "ascend02", model="faulty")
    assert outcome.status == 0, outcome.err
    quick, late = (node["stages"] for node in manifest_of(tool, outcome)["nodes"])
    waited = [max(stage["seconds"] for stage in told if stage["stage"] == "meet") for told in (quick, late)]
    assert waited[0] > 2, quick
    began = [next(stage["started"] for stage in told if stage["stage"] == "precheck") for told in (quick, late)]
    assert abs(began[0] - began[1]) < 2


def manifest_of(tool: Tool, outcome: Outcome) -> Any:
    return json.loads((tool.directory / outcome.document["directory"] / "manifest.json").read_text())


def test_nothing_is_started_before_every_host_can(host: Start, tool: Tool, assert_clean: Clean) -> None:
    hosts = two(host, processes=BUSY)
    tool.inventory(*hosts)
    error = one_error(tool.collect(*JOB), 4, message="NPU 0 chip 0", remedy="wait")
    assert error["host"] == "ascend02"
    assert_clean(*hosts)
    assert [runs(ascend) for ascend in hosts] == [[], []]


def test_a_host_that_cannot_be_reached(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    tool.inventory(ascend, entries={"ascend02": {**ascend.inventory_entry(), "port": 1}})
    error = one_error(tool.collect(*JOB), 3, message="refused|reach|connect", remedy=".")
    assert error["host"] == "ascend02"
    assert_clean(ascend)
    assert runs(ascend) == []


@pytest.mark.exhaustive
def test_a_host_waits_for_the_device_of_another(host: Start, tool: Tool, assert_clean: Clean) -> None:
    hosts = two(host, processes=[*BUSY, {"logic": 7, "pid": 4718, "name": "python", "mb": 9000}])
    tool.inventory(*hosts)
    process = tool.start("--host", "ascend01", "--model", "llama", "--json", "--nodes", "ascend02", "--wait", "60s")
    said = read_until(process, "ascend01: waiting for the other hosts")
    assert "ascend01: importing" not in said
    hosts[1].set_state(processes=[])
    outcome = end(process, said)
    assert outcome.status == 0, outcome.err
    assert profiles(tool.directory / outcome.document["archive"]["path"])["both"] == [
        "profiler_info_0.json",
        "profiler_info_1.json",
    ]


@pytest.mark.parametrize(
    ("what", "rank", "status", "message"),
    [
        ("raise RuntimeError('out of luck')", 3, 6, "rank 3: the model raised RuntimeError: out of luck"),
        ("os.kill(os.getpid(), 11)", 2, 6, "rank 2 was killed by SIGSEGV"),
        ("import torch._dynamo.utils as d; d.counters['stats']['unique_graphs'] += 1", 1, 7, "1 recompile inside"),
    ],
    ids=["raises", "crashes", "invalid"],
)
def test_a_rank_that_fails_ends_all(
    host: Start, tool: Tool, assert_clean: Clean, what: str, rank: int, status: int, message: str
) -> None:
    hosts = two(host)
    faulty(tool, hosts, what, rank, at=5)
    began = time.monotonic()
    error = one_error(tool.collect(*JOB, model="faulty"), status, message=message, remedy=".")
    assert time.monotonic() - began < 40, "nobody waits for what cannot come"
    assert error["host"] == f"ascend0{1 + rank // 2}"
    assert_clean(*hosts)


def test_the_cause_is_told_and_not_who_noticed_it(host: Start, tool: Tool, assert_clean: Clean) -> None:
    """A rank of the first host fails because one of the second has gone, and its launcher says so before that one's."""
    hosts = two(host)
    what = (
        "time.sleep(0.7 * (os.environ['RANK'] == '3')); "
        "raise RuntimeError('Connection closed by peer' if os.environ['RANK'] == '0' else 'out of memory')"
    )
    faulty(tool, hosts, what, 0, 3, at=5)
    error = one_error(tool.collect(*JOB, model="faulty"), 6, message="rank 3: the model raised .*memory", remedy=".")
    assert error["host"] == "ascend02"
    assert_clean(*hosts)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_interrupted_on_all_hosts(host: Start, tool: Tool, assert_clean: Clean, number: int) -> None:
    hosts = two(host)
    faulty(tool, hosts, "time.sleep(60)", 0, 1, 2, 3)
    process = tool.start("--host", "ascend01", "--model", "faulty", "--json", *JOB)
    said = read_until(process, "ascend02: warming up")
    process.send_signal(number)
    outcome = end(process, said)
    assert outcome.status == 130, outcome.err
    for name in ("ascend01", "ascend02"):
        assert f"was stopped on {name}, nothing of it is left and its device is free" in outcome.err
    assert_clean(*hosts)


def test_a_lost_connection_to_one_of_them(host: Start, tool: Tool) -> None:
    hosts = two(host)
    faulty(tool, hosts, "time.sleep(1.5)", 0, 1, 2, 3)
    process = tool.start("--host", "ascend01", "--model", "faulty", "--json", *JOB)
    said = read_until(process, "ascend02: warming up")
    hosts[1].drop_connections()
    outcome = end(process, said)
    assert outcome.status == 0, outcome.err
    assert outcome.document["verdict"] == "valid"


def test_the_plan_of_each_host(host: Start, tool: Tool) -> None:
    hosts = two(host)
    tool.inventory(*hosts, entries={"ascend01": {"env": {"MASTER_ADDR": "192.0.2.7", "MASTER_PORT": "29511"}}})
    outcome = tool("--host", "ascend01", "--model", "llama", *JOB, "--dry-run")
    assert outcome.status == 0, outcome.err
    assert "node      0 of 2, ascend01: ranks 0, 1" in outcome.out
    assert "node      1 of 2, ascend02: ranks 2, 3" in outcome.out
    assert outcome.out.count("master 192.0.2.7, 29511") == 2
    document = tool.collect(*JOB, "--dry-run").document
    assert [node["plan"]["expected"]["ranks"] for node in document["nodes"]] == [[0, 1], [2, 3]]
    assert [runs(ascend) for ascend in hosts] == [[], []]


def test_a_port_that_is_in_use(host: Start, tool: Tool, assert_clean: Clean) -> None:
    hosts = two(host)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        tool.inventory(*hosts, entries={"ascend01": {"env": {"MASTER_PORT": port}}})
        outcome = tool.collect(*JOB)
    error = one_error(outcome, 6, message=f"failed to listen .* port: {port}", remedy="MASTER_PORT")
    assert error["host"] == "ascend01"
    assert_clean(*hosts)


@pytest.mark.parametrize("value", ["", "99999", "many"])
def test_a_port_that_is_none(tool: Tool, value: str) -> None:
    known = {name: {"address": "127.0.0.1", "port": 1} for name in ("ascend01", "ascend02")}
    tool.inventory(entries={**known, "ascend01": {**known["ascend01"], "env": {"MASTER_PORT": value}}})
    one_error(tool.collect(*JOB), 2, message=f"MASTER_PORT of ascend01 is '{value}'", remedy="1 to 65535")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--nodes", "ascend02", "--detach"), "--detach does not go with --nodes"),
        (("--nodes", "ascend02", "--salvage"), "--salvage does not go with --nodes"),
        (("--nodes", "ascend01"), "names a host twice"),
        (("--nodes", "ascend03"), "there is no host 'ascend03'"),
        (("sweep", "--nodes", "ascend02"), "a cell of a sweep is one host"),
    ],
    ids=["detach", "salvage", "twice", "unknown", "sweep"],
)
def test_what_does_not_go_together(tool: Tool, options: tuple[str, ...], message: str) -> None:
    known = {name: {"address": "127.0.0.1", "port": 1} for name in ("ascend01", "ascend02")}
    tool.inventory(entries=known)
    if options[0] == "sweep":
        one_error(tool(*options, "--json"), 2, message=message, remedy=".")
    else:
        one_error(tool.collect(*options), 2, message=message, remedy=".")


SLOW_TO_END = """
import signal, time

def load(device, options):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)
"""


def test_interrupted_twice_leaves_at_once(host: Start, tool: Tool) -> None:
    hosts = two(host)
    (tool.directory / "slow.py").write_text(SLOW_TO_END + "\ndef forward(state): ...\n")
    tool.inventory(*hosts, models={"slow": {"adapter": "./slow.py"}})
    process = tool.start("--host", "ascend01", "--model", "slow", "--json", "--nodes", "ascend02")
    said = read_until(process, "ascend02: loading the model")
    time.sleep(0.5)  # until the model has made itself deaf to the first request
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
    outcome = end(process, said)
    assert outcome.status == 130
    for name in ("ascend01", "ascend02"):
        assert re.search(rf"`collect-remote stop \S+ --host {name}` ends it", outcome.err)
    assert all(gone(ascend.processes, patience_s=20) for ascend in hosts), (
        "the first request is carried out all the same"
    )


def test_a_job_whose_tool_was_killed(host: Start, tool: Tool, assert_clean: Clean) -> None:
    """Its runs wait for each other, and nobody can let them go on: they end when nobody follows, or are stopped."""
    hosts = two(host)
    faulty(tool, hosts, "time.sleep(60)", 0, 1, 2, 3)
    process = tool.start("--host", "ascend01", "--model", "faulty", "--json", *JOB)
    read_until(process, "ascend02: warming up")
    process.kill()
    process.communicate()
    (run,) = runs(hosts[1])
    (listed,) = tool("runs", "--host", "ascend02", "--json").document["runs"]
    assert (listed["state"], listed["node"]["rank"], listed["node"]["count"]) == ("running", 1, 2)
    message = f"run {run} is a part of a job on 2 hosts"
    one_error(tool("attach", run, "--host", "ascend02", "--json"), 2, message=message, remedy=f"stop {run}")
    for ascend in hosts:
        assert tool("stop", *runs(ascend), "--host", ascend.name).status == 0
    shutil.rmtree(tool.profiles)
    assert_clean(*hosts)


def test_a_host_that_does_not_come_back(host: Start, tool: Tool) -> None:
    hosts = two(host)
    faulty(tool, hosts, "time.sleep(60)", 0, 1, 2, 3)
    process = tool.start("--host", "ascend01", "--model", "faulty", "--json", *JOB, "--reconnect-for", "1s")
    said = read_until(process, "ascend02: warming up")
    hosts[1].kill_server()
    (run,) = runs(hosts[1])
    stop = f"run {run} may still be going on: `collect-remote stop {run} --host ascend02` ends it"
    error = one_error(end(process, said), 3, message="lost the connection", remedy=stop)
    assert error["host"] == "ascend02"
    assert gone(hosts[0].processes)
    assert hosts[0].held() == {}


@pytest.fixture
def in_this_process(
    host: Start, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> tuple[Request, list[Host], list[SimHost]]:
    hosts = list(two(host))
    tool.inventory(*hosts)
    monkeypatch.chdir(tool.directory)
    known = load_inventory(Path("inventory.yaml"))
    request = Request(host="ascend01", model="llama", phase="prefill", nodes=("ascend01", "ascend02"))
    return request, [known.host(name) for name in request.nodes], hosts


def test_what_cannot_be_stored_here_stays_on_the_hosts(
    in_this_process: Any, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, known, hosts = in_this_process

    def full(*_: Any) -> None:
        raise StorageError("the disk is full", "free some space")

    monkeypatch.setattr("collect_remote.nodes.job.merge", full)
    with pytest.raises(StorageError, match="the disk is full") as caught:
        collect_job(request, known)
    kept = re.findall(r"`collect-remote attach (\S+) --host (\S+)` brings it", caught.value.remedy)
    assert [name for _, name in kept] == ["ascend01", "ascend02"]
    assert [runs(ascend) for ascend in hosts] == [[run] for run, _ in kept]
    assert not (tool.profiles / ".incoming").exists()
    outcome = tool("attach", kept[1][0], "--host", "ascend02", "--json")
    assert outcome.status == 0, outcome.err
    assert profiles(tool.directory / outcome.document["archive"]["path"]) == {"prefill": ["profiler_info_1.json"]}


def test_what_is_no_valid_whole_is_removed_from_the_hosts(
    in_this_process: Any, assert_clean: Clean, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, known, hosts = in_this_process

    def refuse(*_: Any) -> None:
        raise ProfileInvalid("it is no whole")

    monkeypatch.setattr("collect_remote.nodes.job.merge", refuse)
    with pytest.raises(ProfileInvalid):
        collect_job(request, known)
    assert_clean(*hosts)
    assert [runs(ascend) for ascend in hosts] == [[], []]


def test_a_host_whose_ranks_are_in_a_container(host: Start, tool: Tool, tmp_path: Path) -> None:
    hosts = host(), host(name="ascend02", container_engine="docker")
    box(hosts[1], visible=[2, 3, 5])
    tool.inventory(*hosts, entries={"ascend02": {"container": "vllm", "workdir": "/workspace/runs"}})
    outcome = tool.collect(*JOB, "--phase", "prefill")
    assert outcome.status == 0, outcome.err
    names = [f"profiler_info_{rank}.json" for rank in range(4)]
    assert profiles(tool.directory / outcome.document["archive"]["path"]) == {"prefill": names}
    assert [node["container"] and node["container"]["name"] for node in outcome.document["nodes"]] == [None, "vllm"]
    nothing_left(hosts[1], tmp_path)


def test_the_template_takes_over_on_all_hosts(host: Start, tool: Tool) -> None:
    hosts = two(host)
    trained(tool, hosts)
    (hosts[0].workdir.parent / "project" / "nothing.py").write_text("import sys; sys.exit(1)\n")
    model = {"route": "script", "command": "python3 nothing.py", "step_on": ["x:Y.z"], "fallback": {"adapter": "llama"}}
    project = {"project": str(hosts[0].workdir.parent / "project")}
    tool.inventory(*hosts, models={"mine": {**model, **project}})
    outcome = tool.collect("--nodes", "ascend02", model="mine")
    assert outcome.status == 0, outcome.err
    assert outcome.document["route"] == "template"
    manifest = manifest_of(tool, outcome)
    assert manifest["expected"]["ranks"] == [0, 1]
    assert any(note.startswith("in place of route script") for note in manifest["notes"])


@pytest.mark.torch_npu
@pytest.mark.exhaustive
def test_the_real_torch_npu_and_torchrun(host: Start, tool: Tool, ascend_runtime: str) -> None:
    hosts = host(runtime=ascend_runtime), host(name="ascend02", runtime=ascend_runtime)
    tool.inventory(*hosts)
    outcome = tool.collect("--nodes", "ascend02", "--phase", "prefill", timeout=300)
    assert outcome.status == 0, outcome.err
    assert profiles(tool.directory / outcome.document["archive"]["path"]) == {
        "prefill": ["profiler_info_0.json", "profiler_info_1.json"]
    }
