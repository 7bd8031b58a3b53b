"""Steps of `both`, programs of several processes, and what is said of arguments: as the run tells of them."""

from __future__ import annotations

from typing import Any

import pytest

from collect_agent.drive.diagnosis import cause, diagnose
from collect_agent.drive.story import Story
from collect_agent.run import ranks

DEVICE = {"count": 1, "name": "Ascend910B3", "index": 0, "memory_free_bytes": 5, "memory_total_bytes": 9}
SCHEDULE = {"skip_first": 2, "wait": 0, "warmup": 1, "active": 3}


def line(say: str, pid: int = 7, **fields: Any) -> dict[str, Any]:
    return {"say": say, "time": 1.0, "pid": pid, **fields}


def begun(pid: int = 7, schedule: dict[str, int] | None = None) -> list[dict[str, Any]]:
    profiler = line("profiler", pid, id=1, phase="both", rank=0, wanted=True, schedule=schedule)
    return [profiler, line("device", pid, **DEVICE), line("waiting", pid, id=1), line("opened", pid, id=1)]


def told(story: Story, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [report for one in lines for report in story.tell(one)]


def test_of_a_window_with_steps_the_first_is_the_prefill() -> None:
    states = ("NONE", "WARMUP", "RECORD", "RECORD", "RECORD_AND_SAVE")
    steps = [line("step", id=1, n=n, state=state, seconds=1, recompiles=0) for n, state in enumerate(states)]
    warm = [line("warmup", phase="both", kind=kind, seconds=1, call="x") for kind in ("prefill", "decode")]
    reports = told(Story({"both": 3}, [0]), [line("imported", torch="1", torch_npu="1"), *warm, *begun(), *steps])
    assert [report["kind"] for report in reports if report["stage"] == "warmup"] == ["prefill", "decode"]
    reports = told(Story({"both": 3}, [0]), [*begun(schedule=SCHEDULE), *steps])
    assert [report["kind"] for report in reports if report["stage"] == "profile"] == ["prefill", "decode", "decode"]


def test_one_without_steps_is_a_request() -> None:
    closed = line("closed", id=1, directory="d", how="stop", complete=True)
    (step,) = [r for r in told(Story({"both": None}, [0]), [*begun(), closed]) if r["stage"] == "profile"]
    assert step["kind"] == "request"


def test_a_fork_has_what_its_parent_imported() -> None:
    reports = told(Story({"both": None}, [0]), [line("imported", torch="2.13.0", torch_npu="2.13.0"), *begun(pid=8)])
    assert reports[0]["versions"] == {"torch": "2.13.0", "torch_npu": "2.13.0"}


def test_a_name_that_only_some_processes_have_is_not_missing() -> None:
    story = Story({"both": 3}, [0], calls=["a:B.c"])
    lines = [
        line("alive"),
        line("imported", torch="1", torch_npu="1"),
        line("missing", call="a:B.c", why="not imported"),
    ]
    assert diagnose(story, lines, "", 0, "/l").entry == "no-such-call"
    others = [*begun(8, SCHEDULE), line("step", 8, id=1, n=0, state="NONE", seconds=1, recompiles=0)]
    told(story, others)
    assert diagnose(story, [*lines, *others], "", 0, "/l").entry == "window-too-long"


@pytest.mark.parametrize(
    "said",
    [
        "vllm serve: error: unrecognized arguments: --profiler-config.profiler=torch",
        "train.py: error: argument --steps: invalid int value: 'x'",
        "Could not override 'global_profiler.tool'.",
        "Could not append to config. An item is already at 'trainer.nnodes'.",
    ],
)
def test_arguments_that_a_program_refuses(said: str) -> None:
    assert cause(["usage: it [-h]", said, "Set HYDRA_FULL_ERROR=1"]) == said


def test_an_error_of_no_rank_names_none() -> None:
    heard = ranks.Ranks([0, 1])
    error = {"stage": "error", "kind": "RunFailed", "message": "no luck", "remedy": ""}
    assert [heard.hear({**error, **of})["message"] for of in ({}, {"rank": 0})] == ["no luck", "rank 0: no luck"]  # type: ignore[index]
