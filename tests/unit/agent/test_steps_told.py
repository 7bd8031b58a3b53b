"""What is told of steps besides their number: their kinds, what lies between them, and windows that never came."""

from __future__ import annotations

from pathlib import Path

import pytest

from collect_agent.drive.diagnosis import diagnose
from collect_agent.drive.story import Story
from shims import Shim

LOOP = """
import time
import torch, torch_npu
from steps import step

def run(*tokens, pause=0.0):
    for count in tokens:
        step(torch.zeros((1, count), dtype=torch.int64, device="npu:0"))
        time.sleep(pause)
"""
STEP = """
import torch

def step(input_ids):
    x = torch.randn(4, 4, device="npu:0")
    return x @ x
"""
DECODE = {"decode": {"skip_first": 2, "wait": 0, "warmup": 1, "active": 4}}
CALL = {"call": "steps:step", "phase": None}


@pytest.fixture
def under(tmp_path: Path) -> Shim:
    (tmp_path / "steps.py").write_text(STEP)
    return Shim(tmp_path)


def ran(under, program, windows=DECODE, **more):
    return under.run(LOOP, then=program, **{"step_on": [CALL], "windows": windows, "phase_by": [], **more})


@pytest.mark.parametrize(("calls", "made"), [(1, 1), (2, 2), (4, 4), (6, 6)])
def test_a_program_that_ends_too_early_tells_how_far_it_came(under, calls, made):
    (short,) = ran(under, f"run(9, *[1] * {calls})").said("short")
    assert (short["phase"], short["made"], short["needed"]) == ("decode", made, 7)


def test_a_program_that_makes_enough_steps_tells_nothing_of_it(under):
    assert ran(under, "run(9, *[1] * 7)").said("short") == []


def test_a_call_that_is_never_made_is_a_window_without_a_step(under):
    (short,) = ran(under, "pass").said("short")
    assert (short["made"], short["calls"]) == (0, {})


def test_the_kinds_of_a_window_of_both(under):
    windows = {"both": {"skip_first": 2, "wait": 0, "warmup": 1, "active": 4}}
    told = ran(under, "for _ in range(4): run(9, 1, 1, 1, 1)", windows)
    assert {line["kind"] for line in told.said("warmup")} == {"prefill", "decode"}
    assert {line["phase"] for line in told.said("warmup")} == {"both"}
    story = Story({"both": 4}, [0])
    reports = [report for line in told.said() for report in story.tell(dict(line, pid=7))]
    assert [report["kind"] for report in reports if report["stage"] == "profile"] == ["prefill", *["decode"] * 3]


def test_what_the_program_does_between_two_steps_is_in_them(under):
    told = ran(under, "run(*[1] * 9, pause=0.05)")
    warm = [line["seconds"] for line in told.said("warmup")]
    assert len(warm) == 2
    assert warm[1] > 0.05, "as in the window"
    assert all(line["seconds"] > 0.05 for line in told.said("step") if line["state"].startswith("RECORD"))


def test_a_prefill_has_nothing_of_what_was_before(under):
    windows = {"prefill": {"skip_first": 2, "wait": 0, "warmup": 1, "active": 1}}
    told = ran(under, "run(*[9] * 6, pause=0.05)", windows)
    assert all(line["seconds"] < 0.05 for line in told.said("warmup"))


def test_graphs_that_are_made_between_start_and_stop_are_counted(under):
    program = """
compiled = torch.compile(torch.nn.Linear(4, 4).to("npu:0"), backend="eager", dynamic=False)
compiled(torch.ones(1, 4).to("npu:0"))
prof = torch_npu.profiler.profile(on_trace_ready=torch_npu.profiler.tensorboard_trace_handler("x"))
prof.start()
for size in (2, 3, 3):
    compiled(torch.ones(size, 4).to("npu:0"))
    prof.step()
prof.stop()
"""
    told = ran(under, program, {"forward": None}, step_on=[], phase="forward")
    assert told.one("closed")["recompiles"] == 2
    story = Story({"forward": None}, [0])
    reports = [report for line in told.said() for report in story.tell(dict(line, pid=7))]
    assert [report["recompiles"] for report in reports if report["stage"] == "profile"] == [2]


@pytest.mark.parametrize(
    ("status", "said", "entry"),
    [(0, "", "window-too-long"), (1, "", "window-not-closed"), (0, "KeyError: 'x'", "window-not-closed")],
)
def test_how_a_short_program_is_explained(status, said, entry):
    lines = [
        {"say": "alive", "time": 0.0, "pid": 7},
        {"say": "missing", "time": 0.0, "pid": 7, "call": "a:B.d", "why": "one of several names"},
        {"say": "imported", "time": 0.0, "pid": 7, "torch": "1", "torch_npu": "1"},
        {"say": "warmup", "time": 0.0, "pid": 7, "phase": "decode", "kind": "decode", "seconds": 1, "call": "a:B.c"},
        {"say": "short", "time": 0.0, "pid": 7, "phase": "decode", "made": 1, "needed": 7},
    ]
    story = Story({"decode": 4}, [0], calls=["a:B.c", "a:B.d"])
    failure = diagnose(story, lines, said, status, "/run.log")
    assert failure.entry == entry
    assert ("made 1 steps of decode, and the window needs 7" in failure.message) is (entry == "window-too-long")


def test_of_names_of_which_none_is_there_the_first_is_told():
    lines = [{"say": "alive", "time": 0.0, "pid": 7}]
    lines += [{"say": "missing", "time": 0.0, "pid": 7, "call": name, "why": "w"} for name in ("a:B", "a:C", "x:D")]
    story = Story({"decode": 4}, [0], calls=["a:B", "a:C"])
    assert "there is no a:B (1 more) to take for a step: w" in diagnose(story, lines, "", 0, "/l").message
    assert diagnose(story, lines, "KeyError: 'x'", 1, "/l").entry == "profiler-not-imported"
