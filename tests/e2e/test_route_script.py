"""Any program on the host: a profiler of its own, or one step on a name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness import Tool, gone, one_error
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


def test_a_window_longer_than_the_run(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    folder = project(ascend, train=OWN_PROFILER.format(steps=5))
    tool.inventory(ascend, models={"mine": {"route": "script", "project": folder, "command": "python3 train.py"}})
    outcome = tool.collect("--steps", "10", model="mine")
    one_error(outcome, 6, message="made 5 steps of forward, and the window needs 13", remedy="--steps")
    assert_clean(ascend)
