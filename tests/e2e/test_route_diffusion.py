"""Diffusion: MindIE-SD's dummy runs with their own switch, a script with diffusers and no profiler at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from boxes import manifest
from checkouts import checkout, digests
from harness import Tool, gone, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]
DUMMY = "examples/dummy_run/{}_infer.py"


def asked(tool: Tool, ascend: SimHost, miniature: str, command: str, **model: Any) -> Path:
    project = checkout(ascend, miniature)
    model = {"route": "auto", "project": str(project), "command": f"python3 {command}", **model}
    tool.inventory(ascend, models={"mine": model})
    return project


def proved(tool: Tool, outcome: Any) -> Any:
    """The one profile of a run that went well, whatever its program does by itself."""
    assert outcome.status == 0, outcome.err
    document = manifest(tool, outcome)
    (profile,) = document["profiles"]
    assert (profile["level"], profile["metrics"], profile["phase"]) == ("Level1", "PipeUtilization", "forward")
    assert document["verdict"] == "valid"
    return document


def test_a_dummy_run_is_recorded_at_level_1(host: Start, tool: Tool, runtime: str) -> None:
    ascend = host(runtime=runtime)
    project = asked(tool, ascend, "mindie_sd", DUMMY.format("wan"))
    before = digests(project)
    document = proved(tool, tool.collect(model="mine"))
    assert document["route"] == "mindie-sd"
    assert len(document["phases"]["forward"]["warmup_seconds"]) == 1
    assert len(document["phases"]["forward"]["step_seconds"]) == 1
    assert digests(project) == before
    assert gone(ascend.processes)


def test_what_is_compiled_before_the_window_does_no_harm(host: Start, tool: Tool) -> None:
    asked(tool, host(), "mindie_sd", DUMMY.format("flux") + " --compile --profile")
    assert proved(tool, tool.collect(model="mine"))["phases"]["forward"]["recompiles"] == 0


def test_what_is_compiled_in_the_window_is_no_good_profile(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    asked(tool, ascend, "mindie_sd", DUMMY.format("flux") + " --compile --streaming")
    one_error(tool.collect(model="mine"), 7, message="1 recompile inside the window", remedy="warm up every shape")
    assert_clean(ascend)


def test_a_pipeline_of_diffusers_by_its_denoising_steps(host: Start, tool: Tool, runtime: str) -> None:
    ascend = host(runtime=runtime)
    project = asked(tool, ascend, "diffusion", "text_to_image.py")
    before = digests(project)
    document = proved(tool, tool.collect(model="mine"))
    assert document["route"] == "diffusers"
    steps = document["phases"]["forward"]
    assert (len(steps["warmup_seconds"]), len(steps["step_seconds"])) == (8, 5), "it has a switch to compile"
    assert digests(project) == before


def test_every_step_holds_the_denoiser(host: Start, tool: Tool) -> None:
    asked(tool, host(), "diffusion", "text_to_image.py")
    document = proved(tool, tool.collect("--steps", "6", model="mine"))
    (check,) = [check for check in document["profiles"][0]["checks"] if check["id"] == "kernels-per-step"]
    assert len(set(check["kernels_per_step"])) == 1
    assert check["kernels_per_step"][0] > 10


def test_a_pipeline_that_compiles_is_warmed_up_for_as_long_as_it_may(host: Start, tool: Tool, runtime: str) -> None:
    asked(tool, host(runtime=runtime), "diffusion", "text_to_image.py --compile")
    document = proved(tool, tool.collect(model="mine"))
    steps = document["phases"]["forward"]
    assert (len(steps["warmup_seconds"]), steps["recompiles"]) == (8, 0)


def test_fewer_steps_than_warm_up_and_window_need(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    asked(tool, ascend, "diffusion", "text_to_image.py --steps 5")
    message = "made 5 steps of forward, and the window needs 14"
    one_error(tool.collect(model="mine"), 6, message=message, remedy="--steps")
    asked_again = {"route": "diffusers", "project": str(ascend.home / "diffusion")}
    tool.inventory(ascend, models={"mine": {**asked_again, "command": "python3 text_to_image.py --steps 12"}})
    one_error(tool.collect(model="mine"), 6, message="needs 14", remedy="--steps")
    assert_clean(ascend)


def test_a_pipeline_that_crashes_in_the_window(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    asked(tool, ascend, "diffusion", "text_to_image.py --crash-after 11")
    said = "RuntimeError: the safety checker has no weights"
    one_error(tool.collect(model="mine"), 6, message=said, remedy="read .*run.log")
    assert_clean(ascend)


def test_a_scheduler_of_ones_own(host: Start, tool: Tool) -> None:
    ascend, usual = host(), "scheduling_flow_match_euler_discrete"
    own = "diffusers.schedulers.scheduling_own:FlowMatchEulerDiscreteScheduler"
    project = asked(tool, ascend, "diffusion", "text_to_image.py", scheduler=own)
    (project / "diffusers" / "schedulers" / f"{usual}.py").rename(project / "diffusers/schedulers/scheduling_own.py")
    for path in (project / "diffusers" / "__init__.py", project / "diffusers" / "pipelines" / "pipeline_tiny.py"):
        path.write_text(path.read_text().replace(usual, "scheduling_own"))
    proved(tool, tool.collect(model="mine"))
    model = {"route": "diffusers", "project": str(project), "command": "python3 text_to_image.py"}
    tool.inventory(ascend, models={"mine": model})
    message = "no diffusers.schedulers.scheduling_ddim:DDIMScheduler.step .23 more. to take for a step"
    one_error(tool.collect(model="mine"), 2, message=message, remedy="step_on|scheduler")
