"""Projects that carry what `collect-remote template --for` prints: found, switched on, recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from boxes import manifest
from checkouts import digests
from harness import Tool, gone, one_error
from simhost import SimHost
from wrapped import PROGRAM, PROGRAMS

Start = Callable[..., SimHost]
Clean = Callable[..., None]


def carrying(tool: Tool, ascend: SimHost, scene: str) -> Path:
    """A project with the module below a package, and a program that calls it."""
    project = ascend.home / "mine"
    (project / "tools").mkdir(parents=True)
    (project / "tools" / "npu_profile.py").write_text(tool("template", "--for", scene).out)
    (project / "program.py").write_text(PROGRAM)
    (project / "main.py").write_text(PROGRAMS[scene].replace("from npu_profile", "from tools.npu_profile"))
    tool.inventory(
        ascend, models={"mine": {"route": "auto", "project": str(project), "command": ["python3", "main.py"]}}
    )
    return project


@pytest.mark.parametrize(
    ("scene", "arguments", "steps"),
    [
        ("training", (), {"train": 3}),
        ("training", ("--steps", "4", "--warmup-steps", "4"), {"train": 4}),
        ("inference", ("--yes",), {"prefill": 1, "decode": 10}),
        ("inference", ("--phase", "decode", "--steps", "8"), {"decode": 8}),
        ("rl", ("--phase", "rollout", "--steps", "5"), {"rollout": 5}),
    ],
)
def test_a_module_is_switched_on(
    host: Start, tool: Tool, scene: str, arguments: tuple[str, ...], steps: dict[str, int]
) -> None:
    ascend = host()
    project = carrying(tool, ascend, scene)
    before = digests(project)
    outcome = tool.collect(*arguments, model="mine")
    assert outcome.status == 0, outcome.err
    document = manifest(tool, outcome)
    assert (document["route"], document["verdict"]) == (f"wrapper-{scene}", "valid")
    assert {profile["phase"]: len(profile["steps"]) for profile in document["profiles"]} == steps
    assert digests(project) == before
    assert gone(ascend.processes)


def test_on_the_real_profiler(host: Start, tool: Tool, ascend_runtime: str) -> None:
    ascend = host(runtime=ascend_runtime)
    carrying(tool, ascend, "inference")
    outcome = tool.collect(model="mine")
    assert outcome.status == 0, outcome.err
    assert set(outcome.document["phases"]) == {"prefill", "decode"}


def test_doctor_knows_a_project_that_carries_one(host: Start, tool: Tool) -> None:
    carrying(tool, host(), "training")
    outcome = tool("doctor", "--host", "ascend01", "--model", "mine")
    assert outcome.status == 0, outcome.err
    assert "wrapper-training: tools/npu_profile.py is the module of `template --for training`" in outcome.out


def test_a_service_is_asked_by_its_owner(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    carrying(tool, ascend, "service")
    message = "tools/npu_profile.py records when the server is asked to"
    one_error(tool.collect(model="mine"), 5, message=message, remedy="NPU_PROFILE")
    assert_clean(ascend)


def test_a_module_that_nobody_calls(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    project = carrying(tool, ascend, "training")
    (project / "main.py").write_text(PROGRAM)
    one_error(tool.collect(model="mine"), 5, message="no route fits", remedy="route")
    tool.inventory(
        ascend,
        models={"mine": {"route": "wrapper-training", "project": str(project), "command": ["python3", "main.py"]}},
    )
    one_error(tool.collect(model="mine"), 5, message="reaches no module", remedy="own-code.md")
    assert_clean(ascend)


def test_a_loop_shorter_than_what_was_asked_for(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    carrying(tool, ascend, "training")
    message = "made 12 steps of train, and the window needs 23"
    one_error(tool.collect("--steps", "20", model="mine"), 6, message=message, remedy="--steps")
    assert_clean(ascend)
