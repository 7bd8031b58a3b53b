"""The miniature of MindSpeed: its three dialects with their own defaults, and how they go wrong."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkouts import checkout, on, pyyaml
from simhost import SimHost

PTD, ARGS = "examples/mcore/llama/pretrain_llama_ptd.sh", "examples/mcore/llama/pretrain_llama_args.sh"
FSDP2 = "python3 -m torch.distributed.run --nproc-per-node=1 train_fsdp2.py examples/fsdp2/llama/llama.yaml"
INCOMPLETE = "Incorrect schedule: Stop profiler while current state is RECORD"


class Job:
    def __init__(self, host: SimHost) -> None:
        self.host, self.root = host, checkout(host, "mindspeed")

    def run(self, command: str, env: str = "") -> Any:
        return on(self.host, f"cd mindspeed && {env} {command}")

    def profiles(self, directory: str) -> list[Path]:
        return sorted((self.root / directory).glob("*_ascend_pt"))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with SimHost(tmp_path / "host", server="asyncssh", env=pyyaml(tmp_path)) as host:
        yield Job(host)


def said(profile: Path) -> tuple[str, list[str], list[str]]:
    """Level, kinds of activity and steps of a profile."""
    (info,) = profile.glob("profiler_info*.json")
    config = json.loads(info.read_text())["config"]
    with (profile / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").open(newline="") as file:
        steps = [row["Step"] for row in csv.DictReader(file)]
    kinds = sorted(kind.rpartition(".")[2] for kind in config["common_config"]["activities"])
    return config["experimental_config"]["_profiler_level"], kinds, steps


def test_without_the_switch_nothing_is_recorded(job: Job) -> None:
    done = job.run(f"bash {PTD}")
    assert (done.returncode, "iteration       30/      30" in done.stdout) == (0, True)
    assert list(job.root.rglob("*_ascend_pt")) == []
    assert (job.root / "logs" / "train_llama.log").read_text() in done.stdout


def test_the_defaults_are_level_0_of_rank_0_without_the_host(job: Job) -> None:
    assert job.run(f"bash {ARGS} --profile", env="NPUS_PER_NODE=2").returncode == 0
    (profile,) = job.profiles("profile_dir")
    assert (profile / "profiler_info_0.json").exists()
    # Without CPU activity there are no steps in the tables, although there is a schedule.
    assert said(profile)[:2] == ("Level0", ["NPU"])
    assert not (profile / "ASCEND_PROFILER_OUTPUT" / "operator_details.csv").exists()


def test_the_window_of_the_arguments(job: Job) -> None:
    wanted = "--profile-step-start 5 --profile-step-end 8 --profile-ranks 0 1 --profile-level level1 --profile-with-cpu"
    assert job.run(f"bash {ARGS} --profile {wanted}", env="NPUS_PER_NODE=2").returncode == 0
    assert [said(profile) for profile in job.profiles("profile_dir")] == [
        ("Level1", ["CPU", "NPU"], ["4", "5", "6"])
    ] * 2


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("--profile-step-start 0", "must be greater than or equal to 1"),
        ("--load-iteration 20 --train-iters 40", "greater than the iteration 20 of the checkpoint"),
        ("--profile-steps 3", "unrecognized arguments"),
    ],
)
def test_arguments_that_end_it(job: Job, arguments: str, why: str) -> None:
    done = job.run(f"bash {ARGS} --profile {arguments}")
    assert (done.returncode, why in done.stderr) == (1, True), done.stderr


def test_a_run_that_is_too_short_leaves_the_window_open(job: Job) -> None:
    done = job.run(f"bash {ARGS} --profile", env="TRAIN_ITERS=9")
    assert (done.returncode, INCOMPLETE in done.stdout) == (0, True)


def test_a_rank_that_crashes_is_hidden_by_a_pipe(job: Job) -> None:
    done = job.run(f"bash {PTD}", env="MINDSPEED_CRASH_RANK=1")
    assert (done.returncode, "HcclAllReduce" in done.stdout) == (0, True)


def test_fsdp2_records_all_ranks_to_no_end(job: Job) -> None:
    done = job.run(f"{FSDP2} --training.profile true")
    assert (done.returncode, INCOMPLETE in done.stdout) == (0, True)
    window = "--training.profile_step_start 5 --training.profile_step_end 8 --training.profile_with_cpu true"
    assert job.run(f"{FSDP2} --training.profile true {window} --training.profile_save_path ./closed").returncode == 0
    (profile,) = job.profiles("closed")
    assert said(profile) == ("Level0", ["CPU", "NPU"], ["5", "6", "7"])
    (opened,) = job.profiles("profile")
    assert said(opened)[0] == "Level0"


def test_the_multimodal_models_have_a_file_of_tools(job: Job) -> None:
    assert job.run("bash examples/vlm/pretrain_vlm.sh").returncode == 0
    assert job.profiles("profiling") == []
    tools = job.root / "mindspeed_mm/tools/tools.json"
    tools.write_text(tools.read_text().replace('"enable": false', '"enable": true', 1))
    assert job.run("bash examples/vlm/pretrain_vlm.sh").returncode == 0
    (profile,) = job.profiles("profiling")
    assert said(profile)[:2] == ("Level0", ["NPU"])
