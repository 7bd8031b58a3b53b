"""What is in the window, and what is not: slow first steps, the compiler's files, prefill beside decode."""

from __future__ import annotations

import json
import statistics
import tarfile
from collections.abc import Callable

import pytest

from harness import Tool, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]

COMPILES = """
import os, time
import torch

FIRST = [{first}]

def load(device, options):
    return torch.ones(4, 4).to(device)

def forward(state):
    os.makedirs("kernel_meta_{{}}".format(os.getpid()), exist_ok=True)
    time.sleep(FIRST.pop(0) if FIRST else 0.02)
    return state @ state
"""
PHASES = """
import time
import torch

def load(device, options):
    return torch.ones(4, 4).to(device)

def prefill(state):
    time.sleep(0.2)
    return state @ state

def decode(state):
    time.sleep(0.02)
    return state @ state
"""


def test_what_is_compiled_stays_outside(host: Start, tool: Tool) -> None:
    ascend = host()
    (tool.directory / "slow.py").write_text(COMPILES.format(first="0.1, 0.8, 0.5"))  # precheck, warm-up, warm-up
    tool.inventory(ascend, models={"slow": {"adapter": "./slow.py"}})
    outcome = tool.collect("--warmup-steps", "3", model="slow")
    assert outcome.status == 0, outcome.err
    window = outcome.document["phases"]["forward"]
    assert window["warmup_seconds"][0] >= 0.8
    assert window["warmup_seconds"][1] >= 0.5
    assert statistics.median(window["step_seconds"]) < 0.5
    with tarfile.open(tool.directory / outcome.document["archive"]["path"]) as tar:
        assert not [name for name in tar.getnames() if "kernel_meta" in name]
    assert not list(ascend.workdir.rglob("kernel_meta*"))


def test_a_warm_up_that_was_not_over_is_not_valid(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    # Precheck, one step of warm-up, the profiler's own, the first of the window.
    (tool.directory / "slow.py").write_text(COMPILES.format(first="3, 2, 1.5, 1"))
    tool.inventory(ascend, models={"slow": {"adapter": "./slow.py"}})
    outcome = tool.collect("--warmup-steps", "1", model="slow")
    one_error(outcome, 7, message="warm-up may not have been over", remedy="--warmup-steps")
    assert_clean(ascend)


@pytest.mark.parametrize(
    ("phase", "windows"),
    [("separate", {"prefill": 1, "decode": 10}), ("both", {"both": 11})],
)
def test_every_step_is_labelled_with_its_phase(host: Start, tool: Tool, phase: str, windows: dict[str, int]) -> None:
    (tool.directory / "both.py").write_text(PHASES)
    tool.inventory(host(), models={"both": {"adapter": "./both.py"}})
    outcome = tool.collect("--phase", phase, model="both")
    assert outcome.status == 0, outcome.err
    manifest = json.loads((tool.directory / outcome.document["directory"] / "manifest.json").read_text())
    assert {name: len(window["step_kinds"]) for name, window in manifest["phases"].items()} == windows
    seconds: dict[str, list[float]] = {}
    for window in manifest["phases"].values():
        for kind, second in zip(window["step_kinds"], window["step_seconds"], strict=True):
            seconds.setdefault(kind, []).append(second)
    assert len(seconds["prefill"]) == 1
    assert seconds["prefill"][0] >= 0.2
    assert 0.02 <= statistics.median(seconds["decode"]) < 0.2
