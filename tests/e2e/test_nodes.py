"""One job on several hosts: a run on each, ranks across them, one profile of all or nothing."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import Outcome, Tool, gone, one_error
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
# Each of its ranks is told where it stands by the launcher, as the ranks of any training script are.
TRAIN = """
import os, torch, torch_npu

assert os.environ["WORLD_SIZE"] == "4" and os.environ["NNODES"] == "2" and os.environ["NODE_RANK"] == "{rank}", os.environ
assert os.environ["MASTER_PORT"] == os.environ["TOLD_PORT"]
x = torch.ones(8, 8).to("npu:" + os.environ["LOCAL_RANK"])
with torch_npu.profiler.profile(on_trace_ready=torch_npu.profiler.tensorboard_trace_handler("./prof")) as prof:
    for step in range(20):
        x = x @ x / 8
        prof.step()
"""


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
    assert [line.split(",")[0] for line in log.splitlines() if line.startswith("--- ")] == ["--- ascend01", "--- ascend02"]
    for ascend in hosts:
        assert gone(ascend.processes)
        assert ascend.held() == {}
        assert runs(ascend) == [], "what was brought is removed there"
    again = tool("validate", str(archive), "--json")
    assert again.status == 0, again.out
