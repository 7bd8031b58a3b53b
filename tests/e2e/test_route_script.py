"""Any program on the host: a profiler of its own, or one step on a name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import LLAMA, Tool, gone, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]

OWN_PROFILER = """
import torch, torch_npu

x = torch.ones(8, 8).to("npu:0")
handler = torch_npu.profiler.tensorboard_trace_handler("./prof")
schedule = torch_npu.profiler.schedule(wait=1, warmup=0, active=2, repeat=1)
with torch_npu.profiler.profile(on_trace_ready=handler, schedule=schedule) as prof:
    for step in range({steps}):
        x = x @ x / 8
        prof.step()
"""
MODEL = """
import torch

class Model:
    def forward(self, x):
        return x @ x / 8
"""
NO_PROFILER = """
import torch, torch_npu
from model import Model

x, model = torch.ones(8, 8).to("npu:0"), Model()
for step in range(30):
    x = model.forward(x)
"""


def project(ascend: SimHost, **files: str) -> str:
    folder = ascend.workdir.parent / "project"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return str(folder)


def test_a_profiler_of_its_own(host: Start, tool: Tool, runtime: str) -> None:
    ascend = host(runtime=runtime)
    folder = project(ascend, train=OWN_PROFILER.format(steps=40))
    tool.inventory(ascend, models={"mine": {"route": "auto", "project": folder, "command": "python3 train.py"}})
    outcome = tool.collect("--phase", "train", model="mine")
    assert outcome.status == 0, outcome.err
    assert len(outcome.document["phases"]["train"]["step_seconds"]) == 3
    assert outcome.document["route"] == "script"
    assert sorted(path.name for path in Path(folder).iterdir()) == ["train.py"], "nothing was left in the project"
    assert gone(ascend.processes)


def test_a_step_on_a_name(host: Start, tool: Tool, runtime: str) -> None:
    ascend = host(runtime=runtime)
    folder = project(ascend, infer=NO_PROFILER, model=MODEL)
    model = {
        "route": "script",
        "project": folder,
        "command": ["python3", "infer.py"],
        "step_on": ["model:Model.forward"],
    }
    tool.inventory(ascend, models={"mine": model})
    outcome = tool.collect(model="mine")
    assert outcome.status == 0, outcome.err
    assert len(outcome.document["phases"]["forward"]["step_seconds"]) == 5


def test_a_step_that_the_program_never_makes(host: Start, tool: Tool, assert_clean: Clean) -> None:
    """What runs is a method of the same name of another class."""
    ascend = host()
    other = "\n\nclass Mine(Model):\n    def forward(self, x):\n        return x @ x / 8\n"
    folder = project(ascend, infer=NO_PROFILER.replace("Model", "Mine"), model=MODEL + other)
    mine = {"route": "script", "project": folder, "command": "python3 infer.py", "step_on": ["model:Model.forward"]}
    tool.inventory(ascend, models={"mine": mine})
    message = "no call of model:Model.forward was a step of forward; there were none at all"
    one_error(tool.collect(model="mine"), 6, message=message, remedy="correct `step_on`")
    assert_clean(ascend)


def test_a_window_longer_than_the_run(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    folder = project(ascend, train=OWN_PROFILER.format(steps=5))
    tool.inventory(ascend, models={"mine": {"route": "script", "project": folder, "command": "python3 train.py"}})
    outcome = tool.collect("--steps", "10", model="mine")
    one_error(outcome, 6, message="made 5 steps of forward, and the window needs 13", remedy="--steps")
    assert_clean(ascend)


def test_the_template_takes_over_where_an_adapter_is_known(host: Start, tool: Tool) -> None:
    ascend = host()
    folder = project(ascend, train=OWN_PROFILER.format(steps=5))
    model = {"route": "script", "project": folder, "command": "python3 train.py", "fallback": LLAMA["llama"]}
    tool.inventory(ascend, models={"mine": model})
    outcome = tool.collect("--steps", "10", "--phase", "train", model="mine")
    assert outcome.status == 0, outcome.err
    assert "trying the template instead" in outcome.err
    assert outcome.document["route"] == "template"
    manifest = json.loads((tool.directory / outcome.document["directory"] / "manifest.json").read_text())
    assert manifest["notes"] == ["in place of route script: rank 0 made 5 steps of train, and the window needs 13"]


def test_a_python_that_does_not_load_the_shim(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    folder = project(ascend, train=OWN_PROFILER.format(steps=40))
    command = ["env", "PYTHONPATH=", "python3", "train.py"]
    tool.inventory(ascend, models={"mine": {"route": "script", "project": folder, "command": command}})
    one_error(
        tool.collect(model="mine"),
        5,
        message="the start-up shim was not loaded by any Python of the command",
        remedy="PYTHONPATH",
    )
    assert_clean(ascend)


@pytest.mark.torch_npu
def test_it_is_told_while_the_program_still_runs(
    host: Start, tool: Tool, ascend_runtime: str, assert_clean: Clean
) -> None:
    ascend = host(runtime=ascend_runtime)
    folder = project(ascend, train=OWN_PROFILER.format(steps=40) + "import time\ntime.sleep(300)\n")
    command = ["env", "PYTHONPATH=", "python3", "train.py"]
    tool.inventory(ascend, models={"mine": {"route": "script", "project": folder, "command": command}})
    message = r"the start-up shim was not loaded by pid \d+ .python3 train.py., which uses torch_npu"
    one_error(tool.collect(model="mine"), 5, message=message, remedy="PYTHONPATH")
    assert_clean(ascend)


def test_a_program_that_crashes(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    folder = project(
        ascend,
        train=OWN_PROFILER.format(steps=40).replace(
            "prof.step()", "prof.step()\n        if step == 4: x.no_such_thing()"
        ),
    )
    tool.inventory(ascend, models={"mine": {"route": "script", "project": folder, "command": "python3 train.py"}})
    outcome = tool.collect(model="mine")
    one_error(
        outcome,
        6,
        message="before its window of forward was closed .exit status 1.: AttributeError: .*no_such_thing",
        remedy="read .*run.log",
    )
    assert_clean(ascend)


@pytest.mark.parametrize(
    ("model", "status", "message", "remedy"),
    [
        ({"project": "/nowhere"}, 5, "/nowhere, the project of model mine, is not there", "correct `project`"),
        (
            {"command": "python3 other.py"},
            5,
            "no route fits .*: nothing in 1 of its files, from other.py on",
            "step_on",
        ),
        ({"route": "script", "command": "python3 other.py"}, 5, "has no profiler of its own", "step_on"),
        (
            {"route": "script", "command": "./missing", "step_on": ["a:B.c"]},
            6,
            "./missing cannot be started in",
            "correct `command`",
        ),
        (
            {"route": "script", "command": "python3 other.py", "step_on": ["other:nothing"]},
            2,
            "there is no other:nothing",
            "step_on",
        ),
    ],
)
def test_what_cannot_be_planned(
    host: Start, tool: Tool, assert_clean: Clean, model: dict[str, object], status: int, message: str, remedy: str
) -> None:
    ascend = host()
    folder = project(ascend, other="import torch, torch_npu\n")
    tool.inventory(ascend, models={"mine": {"route": "auto", "project": folder, **model}})
    one_error(tool.collect(model="mine"), status, message=message, remedy=remedy)
    assert_clean(ascend)
