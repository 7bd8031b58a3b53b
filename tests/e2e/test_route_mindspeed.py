"""Training jobs of MindSpeed on a host, through the scripts that start them; and every way there can break."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkouts import checkout, digests, pyyaml
from collected import profiles
from harness import Tool, gone, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]
PTD, ARGS = "examples/mcore/llama/pretrain_llama_ptd.sh", "examples/mcore/llama/pretrain_llama_args.sh"


class Job:
    """A checkout on a host, and an inventory that names a job of it."""

    def __init__(self, tool: Tool, host: SimHost) -> None:
        self.tool, self.host, self.root = tool, host, checkout(host, "mindspeed")

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    def collect(self, command: str, *arguments: str, route: str = "mindspeed", **options: Any) -> Any:
        spec = {"route": route, "project": str(self.root), "command": command, **options}
        self.tool.inventory(self.host, models={"job": spec})
        return self.tool.collect(*arguments, model="job")


@pytest.fixture
def job(host: Start, tool: Tool, tmp_path: Path) -> Callable[..., Job]:
    def start(**options: Any) -> Job:
        return Job(tool, host(env={**pyyaml(tmp_path), **options.pop("env", {})}, **options))

    return start


def test_a_script_without_a_place_for_arguments(job: Callable[..., Job], tool: Tool, runtime: str) -> None:
    """Its own defaults are level 0 of rank 0 without the host; a copy of it asks for more."""
    here = job(runtime=runtime)
    before = digests(here.root)
    outcome = here.collect(f"bash {PTD}", "--devices", "2", route="auto")
    assert profiles(tool, outcome) == [("train", 0, 3), ("train", 1, 3)]
    assert outcome.document["route"] == "mindspeed"
    after = digests(here.root)
    assert {path: after.get(path) for path in before} == before
    assert set(after) - set(before) == {"logs/train_llama.log"}, "as in any run"
    assert gone(here.host.processes)


@pytest.mark.parametrize(
    "command",
    [
        f"bash {ARGS}",
        "bash examples/fsdp2/llama/train_llama_fsdp2.sh",
        "bash examples/vlm/pretrain_vlm.sh",
        "python3 -m torch.distributed.run --nproc-per-node=1 pretrain_gpt.py --train-iters 30",
    ],
    ids=["passes-on", "fsdp2", "multimodal", "no-script"],
)
def test_each_dialect(job: Callable[..., Job], tool: Tool, command: str) -> None:
    here = job()
    before = digests(here.root)
    outcome = here.collect(command, "--steps", "5", route="auto")
    assert profiles(tool, outcome) == [("train", 0, 5)]
    assert outcome.document["route"] == "mindspeed"
    assert digests(here.root) == before


def test_one_rank_of_two(job: Callable[..., Job], tool: Tool) -> None:
    outcome = job().collect(f"bash {PTD}", "--devices", "2", "--ranks", "1")
    assert profiles(tool, outcome) == [("train", 1, 3)]


def test_all_the_iterations_there_are(job: Callable[..., Job], tool: Tool) -> None:
    """30, of which three are before the window, and one is for the profiler itself."""
    outcome = job().collect(f"bash {PTD}", "--devices", "2", "--ranks", "0", "--steps", "all")
    assert profiles(tool, outcome) == [("train", 0, 26)]


def test_a_script_that_chooses_devices_gets_those_that_are_leased(job: Callable[..., Job], tool: Tool) -> None:
    here = job(processes=[{"logic": n, "pid": 4711 + n, "name": "python", "mb": 9000} for n in (0, 1)])
    here.edit(PTD, "NPUS_PER_NODE=2", "NPUS_PER_NODE=2\nexport ASCEND_RT_VISIBLE_DEVICES=0,1")
    outcome = here.collect(f"bash {PTD}", "--devices", "2")
    assert profiles(tool, outcome) == [("train", 0, 3), ("train", 1, 3)]
    leased = {device["logic"] for device in outcome.document["devices"]}
    assert {use.logic for use in here.host.uses()} == leased
    assert not leased & {0, 1}


def test_a_job_that_goes_on_from_a_checkpoint(job: Callable[..., Job], tool: Tool) -> None:
    here = job()
    command = "python3 -m torch.distributed.run --nproc-per-node=1 pretrain_gpt.py --train-iters 60 --load-iteration 20"
    outcome = here.collect(command)
    one_error(outcome, 6, message="ValueError: profile-step-start must be greater than the iteration 20", remedy="read")
    outcome = here.collect(command, resumed_at=20)
    assert profiles(tool, outcome) == [("train", 0, 3)]


# --- how it breaks ---


def test_a_rank_that_crashes_behind_a_pipe(job: Callable[..., Job], assert_clean: Clean) -> None:
    here = job(env={"MINDSPEED_CRASH_RANK": "1"})
    outcome = here.collect(f"bash {PTD}", "--devices", "2")
    message = (
        r"rank \d ended before its window of train was closed \(exit status 0\): RuntimeError: HCCL function error"
    )
    one_error(outcome, 6, message=message, remedy="read .*run.log")
    assert_clean(here.host)


def test_a_job_that_ends_before_its_window(job: Callable[..., Job], assert_clean: Clean) -> None:
    """Its script does not show how long it is."""
    here = job(env={"TRAIN_ITERS": "6"})
    outcome = here.collect(f"bash {ARGS}")
    one_error(outcome, 6, message="rank 0 made 6 steps of train, and the window needs 7", remedy="--steps")
    assert_clean(here.host)


def test_a_program_that_does_not_know_the_switch(job: Callable[..., Job], assert_clean: Clean) -> None:
    """What is installed may be another release than the one that the arguments are of."""
    here = job()
    here.edit("mindspeed_llm/training/arguments.py", '"--profile-with-cpu"', '"--profile-cpu"')
    outcome = here.collect(f"bash {ARGS}")
    one_error(outcome, 6, message="built no profiler|without importing", remedy="read")
    assert "pretrain_gpt.py: error: unrecognized arguments: --profile-with-cpu" in outcome.document["error"]["message"]
    assert_clean(here.host)


def _no_mindspeed(here: Job) -> str:
    here.edit("mindspeed_llm/training/arguments.py", "profile-level", "profile-depth")
    return f"bash {ARGS}"


def _two_nodes(here: Job) -> str:
    here.edit(PTD, "--nnodes 1", "--nnodes 2")
    return f"bash {PTD}"


def _hidden(here: Job) -> str:
    (here.root / "run.sh").write_text("for job in examples/mcore/llama/*.sh; do bash $job; done\n")
    return "bash run.sh"


@pytest.mark.parametrize(
    ("change", "arguments", "status", "message", "remedy"),
    [
        (_no_mindspeed, [], 5, "takes no arguments for a profiler of torch_npu", "MindSpeed"),
        (_two_nodes, ["--devices", "2"], 2, "runs on 2 hosts, and one is asked for", "one host"),
        (_hidden, [], 5, "does not show the program that trains", "command"),
        (lambda _: f"bash {PTD}", [], 2, "has 2 ranks, and the request is for 1", "--devices 2"),
        (
            lambda _: f"bash {PTD}",
            ["--devices", "2", "--steps", "40"],
            2,
            "makes 30 iterations, and 40",
            "--train-iters",
        ),
        (lambda _: f"bash {ARGS}", ["--steps", "all"], 2, "does not show how many iterations", "say how many"),
    ],
    ids=["megatron-alone", "two-nodes", "hidden", "ranks", "too-short", "unknown-length"],
)
def test_what_is_refused_before_anything_starts(
    job: Callable[..., Job],
    assert_clean: Clean,
    change: Callable[[Job], str],
    arguments: list[str],
    status: int,
    message: str,
    remedy: str,
) -> None:
    here = job()
    one_error(here.collect(change(here), *arguments), status, message=message, remedy=remedy)
    assert here.host.uses() == []
    assert_clean(here.host)


def test_an_output_on_a_bad_file_system(job: Callable[..., Job], assert_clean: Clean) -> None:
    here = job(disk="open")
    one_error(here.collect(f"bash {ARGS}"), 5, message="directories that others may write to", remedy="workdir")
    assert_clean(here.host)
