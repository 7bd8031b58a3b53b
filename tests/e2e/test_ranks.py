"""Several devices: torchrun inside the run, one profile a rank, all of them or none."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from boxes import box, inside, nothing_left
from harness import Tool, gone, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]

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
    if len(calls) == {at} and os.environ["RANK"] == "{rank}":
        {what}
    return state @ state
"""


def faulty(tool: Tool, host: SimHost, what: str, rank: int = 1, at: int = 3) -> None:
    (tool.directory / "faulty.py").write_text(FAULTY.format(rank=rank, what=what, at=at))
    tool.inventory(host, models={"faulty": {"adapter": "./faulty.py"}})


def profiles(archive: Path) -> dict[str, list[str]]:
    """{phase: names of the files that tell a profile's rank}."""
    found: dict[str, list[str]] = {}
    with tarfile.open(archive) as tar:
        for name in tar.getnames():
            if "/profiler_info" in name:
                _, phase, _, info = name.split("/")
                found.setdefault(phase, []).append(info)
    return {phase: sorted(names) for phase, names in found.items()}


@pytest.mark.parametrize("count", [2, 4])
def test_every_rank_has_its_own_profile(host: Start, tool: Tool, assert_clean: Clean, count: int) -> None:
    ascend = host()
    tool.inventory(ascend)
    outcome = tool.collect("--devices", str(count), "--phase", "separate")
    assert outcome.status == 0, outcome.err
    archive = tool.directory / outcome.document["archive"]["path"]
    names = [f"profiler_info_{rank}.json" for rank in range(count)]
    assert profiles(archive) == {"prefill": names, "decode": names}

    manifest = json.loads((archive.parent / "manifest.json").read_text())
    assert manifest["expected"]["ranks"] == list(range(count))
    assert sorted((p["phase"], p["rank"], len(p["steps"])) for p in manifest["profiles"]) == [
        *(("decode", rank, 10) for rank in range(count)),
        *(("prefill", rank, 1) for rank in range(count)),
    ]
    # Every rank was on a device of its own, and on the one that it was given.
    ids = sorted(device["logic"] for device in manifest["devices"])
    assert len(set(ids)) == count
    proof = manifest["proof"]
    pids = [proof["pid"], *(entry["pid"] for entry in proof["ranks"])]
    assert [entry["rank"] for entry in proof["ranks"]] == list(range(1, count))
    for moment in proof["presence"]:
        assert moment["own"] == sorted(pids)
        assert moment["idle"] == moment["elsewhere"] == moment["strangers"] == []
    assert {(use.pid, use.logic) for use in ascend.uses() if use.pid in pids} == set(zip(pids, ids, strict=True))
    assert all(len(manifest["phases"]["decode"]["ranks"][str(r)]["step_seconds"]) == 10 for r in range(1, count))
    assert gone(ascend.processes)
    assert ascend.held() == {}


def test_two_named_devices_mean_two_ranks(host: Start, tool: Tool) -> None:
    tool.inventory(host(chip="Ascend910"))
    outcome = tool.collect("--device", "3.0,3.1", "--phase", "prefill")
    assert outcome.status == 0, outcome.err
    assert profiles(tool.directory / outcome.document["archive"]["path"]) == {
        "prefill": ["profiler_info_0.json", "profiler_info_1.json"]
    }


def test_one_device_is_no_job_of_ranks(host: Start, tool: Tool) -> None:
    """Whatever job the session belongs to: its rank is not ours."""
    tool.inventory(host(env={"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "4"}))
    outcome = tool.collect()
    assert outcome.status == 0, outcome.err
    assert profiles(tool.directory / outcome.document["archive"]["path"]) == {"both": ["profiler_info.json"]}


@pytest.mark.parametrize(
    ("what", "status", "message"),
    [
        ("raise RuntimeError('out of luck')", 6, r"rank 1: the model raised RuntimeError: out of luck"),
        ("os.kill(os.getpid(), 11)", 6, "rank 1 was killed by SIGSEGV"),
        ("os._exit(3)", 6, "rank 1 ended with exit status 3"),
    ],
    ids=["raises", "crashes", "exits"],
)
def test_a_rank_that_fails_fails_the_run(
    host: Start, tool: Tool, assert_clean: Clean, what: str, status: int, message: str
) -> None:
    ascend = host()
    faulty(tool, ascend, what)
    one_error(tool.collect("--devices", "3", model="faulty"), status, message=message, remedy=".")
    assert_clean(ascend)


def test_a_rank_that_leaves_quietly_is_missed(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    faulty(tool, ascend, "os._exit(0)", rank=2)
    outcome = tool.collect("--devices", "3", model="faulty")
    one_error(outcome, 6, message="rank 2 ended in its stage warmup, and the others wait for it", remedy="model")
    assert_clean(ascend)


def test_a_rank_that_compiles_in_the_window_is_seen(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    # Precheck, two of warm-up, the profiler's own: the fifth is the first of the window.
    faulty(tool, ascend, "import torch._dynamo.utils as d; d.counters['stats']['unique_graphs'] += 1", at=5)
    one_error(
        tool.collect("--devices", "2", model="faulty"), 7, message="1 recompile inside the window", remedy="shapes"
    )
    assert_clean(ascend)


def test_a_rank_that_hangs_ends_with_the_run(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    faulty(tool, ascend, "import signal; signal.signal(15, signal.SIG_IGN); time.sleep(600)")
    one_error(
        tool.collect("--devices", "2", "--timeout", "3s", model="faulty"), 6, message="not finished", remedy="--timeout"
    )
    assert_clean(ascend)


def test_more_devices_than_there_are_free(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host(processes=[{"logic": n, "pid": 4711 + n, "name": "python", "mb": 9000} for n in range(7)])
    tool.inventory(ascend)
    one_error(tool.collect("--devices", "2"), 4, message="NPU", remedy=".")
    assert_clean(ascend)


def test_ranks_in_a_container(host: Start, tool: Tool, tmp_path: Path) -> None:
    ascend = host(container_engine="docker")
    box(ascend, visible=[2, 3, 5])
    inside(tool, ascend)
    outcome = tool.collect("--devices", "2", "--phase", "prefill")
    assert outcome.status == 0, outcome.err
    assert profiles(tool.directory / outcome.document["archive"]["path"]) == {
        "prefill": ["profiler_info_0.json", "profiler_info_1.json"]
    }
    assert {use.logic for use in ascend.uses()} == {device["logic"] for device in outcome.document["devices"]}
    nothing_left(ascend, tmp_path)


@pytest.mark.torch_npu
def test_the_real_torch_npu_and_torchrun(host: Start, tool: Tool, ascend_runtime: str) -> None:
    ascend = host(runtime=ascend_runtime)
    tool.inventory(ascend)
    outcome = tool.collect("--devices", "2", "--phase", "prefill")
    assert outcome.status == 0, outcome.err
    assert profiles(tool.directory / outcome.document["archive"]["path"]) == {
        "prefill": ["profiler_info_0.json", "profiler_info_1.json"]
    }
    assert sorted({use.logic for use in ascend.uses()}) == sorted(d["logic"] for d in outcome.document["devices"])
