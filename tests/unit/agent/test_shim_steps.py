"""Programs without a profiler: calls of a function or method are the steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect_agent.shim.collect_remote_shim import windows
from collect_agent.shim.collect_remote_shim.windows import INTERRUPTED, NEXT, OPEN, PASS
from shims import Ran, Shim, complaints

MODEL = """
import torch, torch_npu

class Base:
    def forward(self, input_ids, cache=None):
        return self.layer(input_ids.shape[-1])

class Model(Base):
    def layer(self, tokens):
        x = torch.randn(tokens, 4, device="npu:0")
        return (x @ x.T).sum()

    def generate(self, prompt, count):
        self.forward(torch.zeros((1, prompt), dtype=torch.int64, device="npu:0"))
        for _ in range(count):
            self.forward(input_ids=torch.zeros((1, 1), dtype=torch.int64, device="npu:0"))

    @staticmethod
    def still(count):
        return count + 1

    @classmethod
    def known(cls, count):
        return cls.__name__, count

    async def later(self):
        return 1

def train_step(loss=1.0):
    Model().layer(3)
    return loss / 2
"""
FORWARD = {"call": "package.model:Model.forward", "phase": None}
DECODE = {"decode": {"skip_first": 2, "wait": 0, "warmup": 1, "active": 4}}
PREFILL = {"prefill": {"skip_first": 1, "wait": 0, "warmup": 1, "active": 1}}


@pytest.fixture
def under(tmp_path: Path) -> Shim:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "model.py").write_text(MODEL)
    return Shim(tmp_path)


def generate(under: Shim, program: str, **more: Any) -> Ran:
    request = {"step_on": [FORWARD], "windows": DECODE, "phase_by": [], **more}
    return under.run("from package.model import Model, train_step\nmodel = Model()\n", then=program, **request)


def recorded(ran: Ran) -> list[str]:
    """The directories of the windows that closed as they should."""
    return [Path(line["directory"]).parent.name for line in ran.said("closed") if line["complete"]]


# --- windows ---


@pytest.mark.parametrize(
    ("program", "made", "calls"),
    [
        ("", 0, {}),
        ("for _ in range(3): model.generate(12, 0)", 0, {"prefill": 3}),
        ("model.generate(12, 2)", 2, {"prefill": 1, "decode": 2}),
    ],
)
def test_what_the_program_made_too_few_of_is_told(under: Shim, program: str, made: int, calls: dict[str, int]) -> None:
    (short,) = generate(under, program).untroubled().said("short")
    assert (short["phase"], short["made"], short["needed"], short["calls"]) == ("decode", made, 7, calls)


def test_calls_that_are_only_watched_are_not_missed(under: Shim) -> None:
    assert generate(under, "", step_on=[], watch=[FORWARD]).untroubled().said("short") == []


def test_decode_steps_of_a_program_that_only_generates(under: Shim) -> None:
    ran = generate(under, "model.generate(12, 20)").untroubled()
    assert recorded(ran) == ["decode"]
    assert ran.states() == ["WARMUP", "RECORD", "RECORD", "RECORD", "RECORD_AND_SAVE"]
    assert [line["phase"] for line in ran.said("warmup")] == ["decode", "decode"]
    assert {line["call"] for line in ran.said("warmup")} == {FORWARD["call"]}
    assert all(line["seconds"] > 0 for line in ran.said("warmup"))
    _, info = ran.info(ran.one("closed")["directory"])
    assert info["config"]["common_config"]["schedule"]["active"] == 4
    assert complaints(ran.stdout) == []


def test_a_prefill_is_recorded_alone(under: Shim) -> None:
    """The profiler's warm-up step is the prefill before; what comes in between is in no step that counts."""
    ran = generate(under, "for _ in range(4): model.generate(12, 3)", windows=PREFILL).untroubled()
    assert recorded(ran) == ["prefill"]
    assert ran.states() == ["WARMUP", "RECORD_AND_SAVE"]
    assert [line["phase"] for line in ran.said("warmup")] == ["prefill"]


def test_prefill_and_decode_each_in_a_window(under: Shim) -> None:
    ran = generate(under, "for _ in range(6): model.generate(12, 8)", windows={**PREFILL, **DECODE}).untroubled()
    assert sorted(recorded(ran)) == ["decode", "prefill"]
    assert ran.profiles() == {"decode": 1, "prefill": 1}
    opened = [line for line in ran.said() if line["say"] in ("opened", "closed", "discarded")]
    assert [line["say"] for line in opened if line["say"] != "discarded"].count("opened") >= 2
    assert complaints(ran.stdout) == []


def test_one_generation_gives_its_decodes_though_there_is_no_second_prefill(under: Shim) -> None:
    early = {"prefill": {**PREFILL["prefill"], "skip_first": 0}}
    ran = generate(under, "model.generate(12, 20)", windows={**early, **DECODE}).untroubled()
    assert recorded(ran) == ["decode"]
    assert ran.profiles() == {"decode": 1, "prefill": 0}
    assert complaints(ran.stdout) == []


def test_one_window_of_a_prefill_and_its_decodes(under: Shim) -> None:
    both = {"both": {"skip_first": 2, "wait": 0, "warmup": 1, "active": 5}}
    ran = generate(under, "for _ in range(3): model.generate(12, 6)", windows=both).untroubled()
    assert recorded(ran) == ["both"]
    assert ran.states() == ["WARMUP", "RECORD", "RECORD", "RECORD", "RECORD", "RECORD_AND_SAVE"]


def test_a_window_that_is_interrupted_is_thrown_away(under: Shim) -> None:
    program = """
model.generate(12, 5)
model.generate(12, 20)
"""
    ran = generate(under, program).untroubled()
    assert recorded(ran) == ["decode"]
    assert "a call of prefill came in the window of decode" in ran.one("discarded")["why"]
    assert ran.profiles() == {"decode": 1}, "nothing is left of the first"
    assert complaints(ran.stdout) == []


def test_it_gives_up_after_five_attempts(under: Shim) -> None:
    ran = generate(under, "for _ in range(20): model.generate(12, 4)", windows={"decode": {"warmup": 1, "active": 6}})
    assert ran.status == 0
    assert len(ran.said("discarded")) == 5
    assert "interrupted 5 times" in ran.one("trouble")["what"]
    assert ran.said("closed") == []
    assert ran.profiles() == {"decode": 0}


def test_a_call_that_raises_interrupts_its_window(under: Shim) -> None:
    program = """
import torch
model.generate(12, 5)
try:
    model.forward(None)
except AttributeError as error:
    print("raised", error.__class__.__name__)
model.generate(12, 20)
"""
    ran = generate(under, program, step_on=[{**FORWARD, "phase": "decode"}]).untroubled()
    assert "raised AttributeError" in ran.stdout
    assert "raised" in ran.one("discarded")["why"]
    assert recorded(ran) == ["decode"]


def test_a_program_that_ends_in_the_window(under: Shim) -> None:
    ran = generate(under, "model.generate(12, 5)")
    assert ran.one("closed")["complete"] is False
    assert ran.status == 0


def test_a_program_that_ends_before_anything_is_recorded(under: Shim) -> None:
    windows = {"decode": {"skip_first": 2, "warmup": 2, "active": 4}}
    ran = generate(under, "model.generate(12, 3)", windows=windows).untroubled()
    assert ran.said("closed") == []
    assert ran.one("discarded")["why"] == "the program ended"
    assert ran.profiles() == {"decode": 0}
    assert complaints(ran.stdout) == []


def test_another_rank_records_nothing(under: Shim) -> None:
    ran = generate(under, "model.generate(12, 20)", ranks=[1]).untroubled()
    assert ran.one("profiler")["wanted"] is False
    assert ran.said("opened") == []
    assert ran.profiles() == {}


def test_profilers_of_the_programs_own_give_way(under: Shim) -> None:
    program = """
import torch_npu
p = torch_npu.profiler
with p.profile(on_trace_ready=p.tensorboard_trace_handler("own/decode")):
    model.generate(12, 20)
"""
    ran = generate(under, program, phase="decode").untroubled()
    assert [line["wanted"] for line in ran.said("profiler")] == [False, True]
    assert recorded(ran) == ["decode"]


def test_a_training_step_that_is_a_function(under: Shim) -> None:
    """Imported by name before it could be known: everybody has the one that counts."""
    call = {"call": "package.model:train_step", "phase": "train"}
    windows = {"train": {"skip_first": 1, "wait": 1, "warmup": 1, "active": 2}}
    ran = generate(under, "print(sum(train_step(2.0) for _ in range(9)))", step_on=[call], windows=windows).untroubled()
    assert ran.stdout.splitlines()[-1] == "9.0"
    assert recorded(ran) == ["train"]
    assert len(ran.said("warmup")) == 2


def test_a_call_inside_a_call_is_no_step(under: Shim) -> None:
    calls = [FORWARD, {"call": "package.model:Model.layer", "phase": "decode"}]
    ran = generate(under, "model.generate(12, 7)", step_on=calls).untroubled()
    assert recorded(ran) == ["decode"]
    assert len(ran.said("warmup")) == 2


def test_calls_that_go_into_a_graph_are_no_steps(under: Shim) -> None:
    """To wait for the device would break the capture."""
    program = """
import torch
torch.npu.is_current_stream_capturing = lambda: capturing
real, capturing = torch.npu.synchronize, True
torch.npu.synchronize = lambda: real() if not capturing else print("broken")
model.generate(12, 9)
capturing = False
model.generate(12, 9)
"""
    ran = generate(under, program).untroubled()
    assert "broken" not in ran.stdout
    assert len(ran.said("warmup")) == 2
    assert recorded(ran) == ["decode"]


# --- names ---


@pytest.mark.parametrize("name", ["still", "known"])
def test_static_and_class_methods(under: Shim, name: str) -> None:
    call = {"call": "package.model:Model." + name, "phase": "decode"}
    program = f"print([Model.{name}(n) for n in range(9)][-1], model.{name}(3))"
    ran = generate(under, program, step_on=[call]).untroubled()
    assert ran.stdout.splitlines()[-1] == {"still": "9 4", "known": "('Model', 8) ('Model', 3)"}[name]
    assert recorded(ran) == ["decode"]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("package.model:Model.backward", "has no attribute 'backward'|type object 'Model'|backward"),
        ("package.model:Nothing.forward", "Nothing"),
        ("package.model:Model.later", "does not run to its end"),
        ("package.other:step", "package.other was not imported"),
    ],
)
def test_a_name_that_is_not_there_is_missing(under: Shim, call: str, why: str) -> None:
    ran = generate(under, "model.generate(12, 3)", step_on=[{"call": call, "phase": "decode"}]).untroubled()
    missing = ran.one("missing")
    assert missing["call"] == call
    assert any(part in missing["why"] for part in why.split("|"))
    assert ran.said("profiler") == []


def test_signatures_stay_as_they_are(under: Shim) -> None:
    program = (
        "import inspect; print(inspect.signature(Model.forward), Model.forward.__qualname__, 'forward' in vars(Model))"
    )
    ran = generate(under, program).untroubled()
    assert ran.stdout.splitlines()[-1] == "(self, input_ids, cache=None) Base.forward True"


# --- watching a program that has a profiler ---


def test_calls_before_the_window_are_warm_up_steps(under: Shim) -> None:
    program = """
import torch_npu
p = torch_npu.profiler
model.generate(12, 2)
with p.profile(on_trace_ready=p.tensorboard_trace_handler("own/decode")) as prof:
    model.generate(12, 3)
model.generate(12, 4)
"""
    watch = [{"call": "package.model:Model.generate", "phase": "decode"}]
    ran = generate(under, program, step_on=[], watch=watch, windows={"decode": None}, phase="decode").untroubled()
    (warmup,) = ran.said("warmup")
    assert (warmup["phase"], warmup["call"]) == ("decode", watch[0]["call"])
    assert warmup["time"] < ran.one("opened")["time"]


@pytest.mark.parametrize("phase", ["decode", None])
def test_watched_calls_of_all_phases(under: Shim, phase: Any) -> None:
    watch = [{"call": "package.model:Model.forward", "phase": phase}]
    ran = generate(under, "model.generate(12, 2)", step_on=[], watch=watch, windows={"decode": None}).untroubled()
    assert [line["phase"] for line in ran.said("warmup")] == [phase] * 3


def test_calls_that_come_by_the_thousand_are_not_all_told(under: Shim) -> None:
    watch = [{"call": "package.model:Model.forward", "phase": None}]
    ran = generate(under, "model.generate(12, 200)", step_on=[], watch=watch, windows={"both": None}).untroubled()
    told = [line["kind"] for line in ran.said("warmup")]
    assert told == ["prefill", *["decode"] * 19]


# --- decisions ---


def play(window: windows.Window, calls: list[str]) -> list[str]:
    """What each call means, one after the other, as `Steps` asks."""
    seen, position, meanings = 0, None, []
    for kind in calls:
        meaning = window.decide(kind, seen, position)
        meanings.append(meaning)
        if meaning in (OPEN, NEXT):
            position = (position or 0) + 1
            if position == len(window.kinds):
                break
        elif meaning == INTERRUPTED:
            position = None
        elif position is None and window.counts(kind):
            seen += 1
    return meanings


P, D = "prefill", "decode"


@pytest.mark.parametrize(
    ("phase", "numbers", "calls", "meanings"),
    [
        (D, {"active": 2}, [P, D, D], [PASS, OPEN, NEXT]),
        (D, {"skip_first": 1, "wait": 1, "active": 1}, [P, D, D, D], [PASS, PASS, PASS, OPEN]),
        (D, {"warmup": 1, "active": 2}, [D, P, D, D, D], [OPEN, INTERRUPTED, OPEN, NEXT, NEXT]),
        (D, {"warmup": 2, "active": 2}, [D, P, D, D, D], [OPEN, PASS, NEXT, NEXT, NEXT]),
        (D, {"active": 3}, [D, P, D, D, D], [OPEN, INTERRUPTED, OPEN, NEXT, NEXT]),
        (P, {"warmup": 1, "active": 1}, [P, D, D, P], [OPEN, PASS, PASS, NEXT]),
        (P, {"active": 2}, [P, D], [OPEN, INTERRUPTED]),
        ("both", {"warmup": 1, "active": 3}, [D, P, D, P, D, D], [PASS, OPEN, PASS, NEXT, NEXT, NEXT]),
        ("both", {"active": 3}, [P, D, P], [OPEN, NEXT, INTERRUPTED]),
        ("train", {"active": 2}, ["train", "train"], [OPEN, NEXT]),
    ],
)
def test_what_a_call_means(phase: str, numbers: dict[str, int], calls: list[str], meanings: list[str]) -> None:
    assert play(windows.Window(phase, numbers), calls) == meanings


@given(st.lists(st.sampled_from([P, D]), max_size=60), st.integers(1, 5), st.integers(0, 2), st.integers(0, 3))
def test_what_is_recorded_follows_each_other(calls: list[str], active: int, warmup: int, before: int) -> None:
    window = windows.Window(D, {"active": active, "warmup": warmup, "skip_first": before})
    meanings = play(window, calls)
    steps = [n for n, meaning in enumerate(meanings) if meaning in (OPEN, NEXT)]
    broken = [n for n, meaning in enumerate(meanings) if meaning == INTERRUPTED]
    last = [n for n in steps if n > max(broken, default=-1)]
    assert all(calls[n] == D for n in steps)
    recorded = last[warmup:]
    assert recorded == list(range(recorded[0], recorded[-1] + 1)) if recorded else True
    assert sum(call == D for call in calls[: steps[0]]) >= before if steps else True


class Shaped:
    def __init__(self, *shape: int) -> None:
        self.shape = shape


class Scheduled:
    """What vLLM's scheduler hands to a model runner."""

    def __init__(self, **tokens: int) -> None:
        self.num_scheduled_tokens = tokens


@pytest.mark.parametrize(
    ("args", "kwargs", "kind"),
    [
        ((Shaped(1, 8),), {}, P),
        ((Shaped(4, 1),), {}, D),
        ((Shaped(9),), {}, P),
        ((Shaped(1),), {}, D),
        ((), {"input_ids": Shaped(2, 1), "attention_mask": Shaped(2, 40)}, D),
        ((), {"attention_mask": Shaped(2, 40), "inputs_embeds": Shaped(2, 1, 64)}, D),
        ((object(), Shaped(2, 16, 64)), {}, P),
        (({"input_ids": Shaped(1, 5)},), {}, P),
        ((object(), Scheduled(a=7, b=1)), {}, P),
        ((Scheduled(a=1, b=1, c=1),), {}, D),
        ((), {"scheduler_output": Scheduled()}, D),
        ((), {}, D),
        ((3, "a"), {"input_ids": None}, D),
    ],
)
def test_the_kind_of_a_call_is_in_its_tokens(args: Any, kwargs: dict[str, Any], kind: str) -> None:
    assert windows.kind_of(args, kwargs) == kind
