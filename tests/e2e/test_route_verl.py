"""verl: the update of the actor, or the rollout, of one training step."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkouts import checkout, digests
from collected import Collected, level1
from harness import Outcome, Tool, gone, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]
RAY_VENV = Path(os.environ.get("COLLECT_REMOTE_RAY_VENV") or Path(__file__).resolve().parents[2] / ".venv" / "ray")


class Place:
    """A host with the miniature in a directory of the user's."""

    def __init__(self, host: Start, tool: Tool, version: str = "0.9.0", runtime: str = "light", **env: str) -> None:
        self.ascend = host(runtime=runtime, versions={"verl": version}, env=env)
        self.tool = tool
        self.folder = checkout(self.ascend, "verl")
        self.before = digests(self.folder)

    def collect(self, *arguments: str, command: str = "bash run_grpo.sh", **options: Any) -> Outcome:
        model = {"route": "auto", "project": str(self.folder), "command": command, **options}
        self.tool.inventory(self.ascend, models={"trained": model})
        return self.tool.collect(*arguments, model="trained")

    def untouched(self) -> None:
        assert digests(self.folder) == self.before
        assert gone(self.ascend.processes, 10)
        assert self.ascend.held() == {}


@pytest.mark.parametrize("phase", ["train", "rollout"])
@pytest.mark.parametrize("version", ["0.5.0", "0.6.1", "0.7.1", "0.8.0", "0.9.0"])
def test_releases(host: Start, tool: Tool, version: str, phase: str) -> None:
    place = Place(host, tool, version)
    outcome = place.collect("--devices", "2", "--phase", phase)
    if (version, phase) == ("0.7.1", "rollout"):
        one_error(outcome, 5, message="0.7.1 makes its rollouts in servers", remedy="--phase train")
        return
    found = Collected(tool, outcome)
    assert found.manifest["route"] == "verl"
    assert found.profiles == level1(phase, 2)
    place.untouched()


@pytest.mark.parametrize("arguments", [("--ranks", "1"), ("--steps", "1")])
def test_some_of_the_ranks(host: Start, tool: Tool, arguments: tuple[str, ...]) -> None:
    place = Place(host, tool)
    found = Collected(tool, place.collect("--devices", "2", *arguments))
    assert [rank for _, rank, *_ in found.profiles] == ([1] if "--ranks" in arguments else [0, 1])
    # One step of the actor's update: two micro-batches.
    assert set(found.operators("aten::embedding", "train")) == {2}
    assert found.manifest["phases"]["train"]["warmup_kinds"][:2] == ["train", "train"]


@pytest.mark.parametrize(("steps", "tokens"), [("5", 5), ("all", 12)])
def test_a_part_of_the_answer(host: Start, tool: Tool, steps: str, tokens: int) -> None:
    place = Place(host, tool)
    found = Collected(tool, place.collect("--devices", "2", "--phase", "rollout", "--steps", steps))
    assert found.operators("aten::embedding", "rollout") == [tokens, tokens]


def on_a_cluster(place: Place) -> str:
    """A command whose job goes to a cluster that was there before."""
    text = (place.folder / "run_grpo.sh").read_text().replace('"$@"', "")
    (place.folder / "on_cluster.sh").write_text("export RAY_ADDRESS=127.0.0.1:6379\n" + text)
    place.before = digests(place.folder)
    return "bash on_cluster.sh"


@pytest.mark.parametrize("phase", ["train", "rollout"])
def test_processes_of_a_cluster_that_was_there(host: Start, tool: Tool, phase: str) -> None:
    """They have nothing of the job's environment but what it asks for."""
    place = Place(host, tool)
    found = Collected(tool, place.collect("--devices", "2", "--phase", phase, command=on_a_cluster(place)))
    assert found.profiles == level1(phase, 2)
    place.untouched()


def test_devices_of_a_cluster_that_was_there(host: Start, tool: Tool, assert_clean: Clean) -> None:
    """Nobody has leased them."""
    place = Place(host, tool, VERL_MINIATURE_CLUSTER_DEVICES="1,2")
    outcome = place.collect("--device", "3", "--device", "6", command=on_a_cluster(place))
    one_error(outcome, 7, message="our process is on another device than it was given: pid .* on NPU 1", remedy=".")
    place.untouched()
    assert_clean(place.ascend)


@pytest.mark.slow
def test_processes_of_ray(host: Start, tool: Tool) -> None:
    packages = next(RAY_VENV.glob("lib/python3*/site-packages"), None)
    if packages is None:
        pytest.skip(f"no Ray in {RAY_VENV}")
    place = Place(host, tool, VERL_MINIATURE_RAY="1", PYTHONPATH=str(packages))
    found = Collected(tool, place.collect("--devices", "2"))
    assert found.profiles == level1("train", 2)
    place.untouched()


@pytest.mark.slow
@pytest.mark.torch_npu
@pytest.mark.parametrize("phase", ["train", pytest.param("rollout", marks=pytest.mark.exhaustive)])
def test_the_real_torch_npu(host: Start, tool: Tool, ascend_runtime: str, phase: str) -> None:
    """Which would leave databases alone, at Level0, and of a rollout raw data."""
    place = Place(host, tool, runtime=ascend_runtime, VERL_MINIATURE_VERSION="0.9.0")
    found = Collected(tool, place.collect("--devices", "2", "--phase", phase))
    assert found.profiles == level1(phase, 2)
    place.untouched()


def test_a_role_that_dies(host: Start, tool: Tool, assert_clean: Clean) -> None:
    place = Place(host, tool, VERL_MINIATURE_ROLE_DIES="1:3")
    outcome = place.collect("--devices", "2")
    one_error(
        outcome, 6, message="rank 1 built no profiler for train.*ActorDiedError.*exit code -9", remedy="read .*run.log"
    )
    place.untouched()
    assert_clean(place.ascend)


@pytest.mark.parametrize("there", [False, True], ids=["own", "there"])
def test_a_role_that_hangs_ends_with_the_run(host: Start, tool: Tool, assert_clean: Clean, there: bool) -> None:
    """Its processes are in sessions of their own, and in a cluster that was there have little of our environment."""
    place = Place(host, tool, VERL_MINIATURE_ROLE_HANGS="1:2")
    command = on_a_cluster(place) if there else "bash run_grpo.sh"
    outcome = place.collect("--devices", "2", "--timeout", "4s", command=command)
    one_error(outcome, 6, message="not finished", remedy="--timeout")
    place.untouched()
    assert_clean(place.ascend)


def test_another_release_than_it_looks(host: Start, tool: Tool, assert_clean: Clean) -> None:
    """Its configuration has other keys: Hydra refuses what is not in it."""
    place = Place(host, tool, VERL_MINIATURE_VERSION="0.5.0")
    one_error(
        place.collect("--devices", "2"),
        6,
        message="ended without importing torch_npu.profiler .exit status 1.: Could not override 'global_profiler.tool'",
        remedy="read",
    )
    assert_clean(place.ascend)


@pytest.mark.parametrize(
    ("version", "arguments", "command", "status", "message"),
    [
        ("0.4.1", ("--devices", "2"), "bash run_grpo.sh", 5, "verl 0.4.1 has no profiler for NPUs"),
        ("0.9.0", (), "bash run_grpo.sh", 2, "has 2 ranks, and the request is for 1"),
        ("0.9.0", ("--devices", "2", "--steps", "3"), "bash run_grpo.sh", 2, "each training step by itself"),
        ("0.9.0", ("--devices", "2"), "bash other.sh", 5, "other.sh does not show where it starts its program"),
        (
            "0.9.0",
            (),
            "python3 -m verl.trainer.main_ppo trainer.nnodes=2 trainer.n_gpus_per_node=1",
            2,
            "several nodes",
        ),
        (
            "0.9.0",
            ("--devices", "4", "--phase", "rollout", "--ranks", "2"),
            "python3 -m verl.trainer.main_ppo trainer.n_gpus_per_node=4",
            2,
            "--ranks 2: a rollout is recorded on the first of its engines, which has 2 ranks",
        ),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_starts(
    host: Start, tool: Tool, version: str, arguments: tuple[str, ...], command: str, status: int, message: str
) -> None:
    place = Place(host, tool, version)
    (place.folder / "other.sh").write_text("bash run_grpo.sh\n")
    outcome = place.collect(*arguments, command=command, route="verl")
    one_error(outcome, status, message=message, remedy=".")
    assert not (place.ascend.workdir / "runs").exists()
