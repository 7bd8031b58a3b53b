"""Scripts as people have them: inference and training, with a profiler and without, by `route: script` or found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boxes import manifest
from checkouts import checkout, digests
from harness import Tool, gone, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]
FORWARD = "tinylm.modeling_tiny:TinyForCausalLM.forward"


def asked(tool: Tool, ascend: SimHost, command: str, **model: Any) -> Path:
    project = ascend.home / "scripts"
    if not project.exists():
        checkout(ascend, "scripts")
    model = {"route": "auto", "project": str(project), "command": f"python3 {command}", **model}
    tool.inventory(ascend, models={"mine": model})
    return project


def counts(tool: Tool, outcome: Any) -> dict[str, int]:
    """Steps by phase of a valid result at Level1."""
    assert outcome.status == 0, outcome.err
    document = manifest(tool, outcome)
    assert document["verdict"] == "valid"
    assert {(each["level"], each["metrics"]) for each in document["profiles"]} == {("Level1", "PipeUtilization")}
    return {each["phase"]: len(each["steps"]) for each in document["profiles"]}


def test_a_generate_loop_by_its_model(host: Start, tool: Tool, runtime: str) -> None:
    ascend = host(runtime=runtime)
    project = asked(tool, ascend, "generate.py --prompts 6", step_on=[FORWARD])
    before = digests(project)
    outcome = tool.collect("--phase", "separate", model="mine")
    assert counts(tool, outcome) == {"prefill": 1, "decode": 10}
    assert digests(project) == before
    assert gone(ascend.processes)


@pytest.mark.parametrize(("phase", "steps"), [("decode", 10), ("prefill", 1), ("both", 11)])
def test_the_tokens_of_a_call_tell_its_phase(host: Start, tool: Tool, phase: str, steps: int) -> None:
    asked(tool, host(), "generate.py --prompts 6", step_on=[FORWARD])
    outcome = tool.collect("--phase", phase, model="mine")
    assert counts(tool, outcome) == {phase: steps}
    told = manifest(tool, outcome)["phases"][phase]
    expected = ["prefill"] + ["decode"] * 10 if phase == "both" else [phase] * steps
    assert told["step_kinds"] == expected
    assert set(told["warmup_kinds"]) == set(expected)


@pytest.mark.parametrize("script", ["pretrain_profiled.py", "pretrain_imported.py"])
def test_a_profiler_of_level_0_becomes_one_of_level_1(host: Start, tool: Tool, runtime: str, script: str) -> None:
    project = asked(tool, host(runtime=runtime), script)
    outcome = tool.collect("--phase", "train", "--steps", "4", model="mine")
    assert counts(tool, outcome) == {"train": 4}
    assert manifest(tool, outcome)["route"] == "script"
    assert list(project.rglob("*_ascend_pt")) == []


def test_all_steps_is_the_window_that_the_script_has(host: Start, tool: Tool) -> None:
    asked(tool, host(), "pretrain_profiled.py")
    assert counts(tool, tool.collect("--phase", "train", "--steps", "all", model="mine")) == {"train": 2}


def test_a_training_loop_without_a_profiler_by_its_step(host: Start, tool: Tool, runtime: str) -> None:
    asked(tool, host(runtime=runtime), "pretrain.py", step_on=["training:Trainer.train_step"])
    assert counts(tool, tool.collect("--phase", "train", model="mine")) == {"train": 3}


@pytest.mark.parametrize("route", ["auto", "script"])
def test_an_examples_profiler_is_none_of_the_scripts(host: Start, tool: Tool, assert_clean: Clean, route: str) -> None:
    ascend = host()
    asked(tool, ascend, "pretrain.py", route=route)
    message = "no route fits .*scripts" if route == "auto" else "the command of model mine has no profiler of its own"
    one_error(tool.collect("--phase", "train", model="mine"), 5, message=message, remedy="step_on")
    assert_clean(ascend)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tinylm.modeling_tiny:TinyForCausalLM.fowrard", "no tinylm.modeling_tiny:TinyForCausalLM.fowrard .*fowrard"),
        ("tinylm.modelling:TinyForCausalLM.forward", "tinylm.modelling was not imported"),
    ],
)
def test_a_name_that_is_not_there(host: Start, tool: Tool, assert_clean: Clean, name: str, message: str) -> None:
    ascend = host()
    asked(tool, ascend, "generate.py", step_on=[name])
    one_error(tool.collect("--phase", "decode", model="mine"), 2, message=message, remedy="step_on")
    assert_clean(ascend)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--phase", "train", "--steps", "50"), "rank 0 made 30 steps of train, and the window needs 53"),
        (("--phase", "train", "--steps", "4", "--warmup-steps", "40"), "rank 0 made 30 steps of train, .* needs 45"),
    ],
)
def test_a_window_longer_than_the_training(
    host: Start, tool: Tool, assert_clean: Clean, arguments: tuple[str, ...], message: str
) -> None:
    ascend = host()
    asked(tool, ascend, "pretrain.py", step_on=["training:Trainer.train_step"])
    one_error(tool.collect(*arguments, model="mine"), 6, message=message, remedy="--steps")
    asked(tool, ascend, "pretrain_profiled.py")
    one_error(tool.collect(*arguments, model="mine"), 6, message=message, remedy="--steps")
    assert_clean(ascend)


def test_a_script_that_crashes(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    asked(tool, ascend, "generate.py --crash-at 1 --new-tokens 4", step_on=[FORWARD])
    outcome = tool.collect("--phase", "prefill", model="mine")
    one_error(outcome, 6, message="exit status 1", remedy="read .*run.log|run longer")
    assert_clean(ascend)


@pytest.mark.parametrize(
    ("arguments", "model", "message"),
    [
        (("--phase", "both"), {}, "the profilers of model mine are the program's own"),
        (("--steps", "all"), {"step_on": ["training:Trainer.train_step"]}, "how many calls of `step_on` there are"),
    ],
)
def test_what_a_script_does_not_tell(
    host: Start, tool: Tool, assert_clean: Clean, arguments: tuple[str, ...], model: dict[str, Any], message: str
) -> None:
    ascend = host()
    asked(tool, ascend, "pretrain_profiled.py", **model)
    one_error(tool.collect(*arguments, model="mine"), 2, message=message, remedy="separate|how many")
    assert_clean(ascend)
