"""The template in place of a program whose own way came to nothing: when, where its result goes, and after a kill."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import LLAMA, Tool, gone, leases, one_error
from simhost import SimHost

Start = Callable[..., SimHost]

PROGRAM = """
import torch, torch_npu

x = torch.ones(8, 8).to({device!r})
schedule = torch_npu.profiler.schedule(wait=1, warmup=0, active=2, repeat=1)
with torch_npu.profiler.profile(schedule=schedule) as prof:
    for step in range({steps}):
        x = x @ x / 8
        prof.step()
"""
# Its first start notes that it was there and waits until the gate is open.
GATED = """
import os, time
import torch

def load(device, options):
    with open(options["started"], "a") as file:
        file.write("template\\n")
    while not os.path.exists(options["gate"]):
        time.sleep(0.02)
    return torch.ones(4, 4).to(device)

def forward(state):
    return state @ state
"""


def model(ascend: SimHost, fallback: dict[str, Any], program: str, **more: Any) -> dict[str, Any]:
    folder = ascend.workdir.parent / "project"
    folder.mkdir()
    (folder / "train.py").write_text(program)
    return {"route": "script", "project": str(folder), "command": "python3 train.py", "fallback": fallback, **more}


def test_of_two_results_the_valid_one_has_the_place_that_was_named(host: Start, tool: Tool) -> None:
    """On the CPU nothing is launched: a profile that is not valid, of which there is something to salvage."""
    ascend = host()
    mine = model(ascend, LLAMA["llama"], PROGRAM.format(device="cpu", steps=40))
    tool.inventory(ascend, models={"mine": mine})
    outcome = tool.collect("--phase", "train", "--salvage", "--out", "there", model="mine")
    assert outcome.status == 0, outcome.err
    assert "trying the template instead" in outcome.err
    manifest = json.loads((tool.directory / "there" / "manifest.json").read_text())
    assert (manifest["route"], manifest["verdict"]) == ("template", "valid")
    assert manifest["notes"][0].startswith("in place of route script: the profile is not valid")


def test_a_program_that_the_shim_does_not_reach_has_come_to_nothing(host: Start, tool: Tool) -> None:
    ascend = host()
    mine = model(
        ascend, LLAMA["llama"], PROGRAM.format(device="npu:0", steps=40), command="env PYTHONPATH= python3 train.py"
    )
    tool.inventory(ascend, models={"mine": mine})
    outcome = tool.collect(model="mine")
    assert outcome.status == 0, outcome.err
    assert outcome.document["route"] == "template"


def test_what_was_not_tried_is_not_replaced(host: Start, tool: Tool, assert_clean: Callable[..., None]) -> None:
    ascend = host()
    mine = model(ascend, LLAMA["llama"], PROGRAM.format(device="npu:0", steps=40))
    tool.inventory(ascend, models={"mine": {**mine, "project": "/nowhere"}})
    one_error(tool.collect(model="mine"), 5, message="is not there", remedy="correct `project`")
    assert_clean(ascend)


@pytest.mark.parametrize("moment", ["program", "template"])
def test_a_sweep_that_is_killed_goes_on_with_what_runs(host: Start, tool: Tool, tmp_path: Path, moment: str) -> None:
    ascend = host()
    started, gate = tool.directory / "started", tool.directory / "gate"
    (tool.directory / "gated.py").write_text(GATED)
    fallback = {"adapter": "./gated.py", "started": str(started), "gate": str(gate)}
    begins = f"with open({str(started)!r}, 'a') as file: file.write('program\\n')\nimport os, time\n"
    waits = f"while {moment == 'program'} and not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
    mine = model(ascend, fallback, begins + waits + PROGRAM.format(device="npu:0", steps=2))
    tool.inventory(ascend, models={"mine": mine})
    process = tool.start("sweep", "--json")
    until = time.monotonic() + 60
    while not started.exists() or moment not in started.read_text():
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    gate.touch()
    done = tool("sweep", "--resume", "--json")
    assert done.status == 0, done.err
    assert started.read_text().split() == ["program", "template"], "neither was run twice"
    (cell,) = done.document["cells"]
    assert cell["state"] == "valid"
    manifest = json.loads((tool.directory / cell["directory"] / "manifest.json").read_text())
    assert manifest["route"] == "template"
    assert gone(ascend.processes)
    assert leases(tmp_path) == []
