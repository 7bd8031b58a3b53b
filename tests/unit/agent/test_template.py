"""The template's arithmetic, and the order of what it does around every step."""

from __future__ import annotations

import contextlib
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect_agent import template

REQUEST = {
    "phase": "both",
    "steps": 5,
    "warmup_steps": 2,
    "level": 1,
    "aic_metrics": "PipeUtilization",
    "export": ["text"],
    "with_stack": False,
    "record_shapes": False,
    "profile_memory": False,
}


def test_windows_of_every_phase() -> None:
    assert template.windows("prefill", 1) == {"prefill": ["prefill"]}
    assert template.windows("decode", 5) == {"decode": ["decode"] * 5}
    assert template.windows("both", 6) == {"both": ["prefill"] + ["decode"] * 6}
    assert template.windows("separate", 7) == {"prefill": ["prefill"], "decode": ["decode"] * 7}
    assert template.windows("forward", 5) == {"forward": ["forward"] * 5}


@pytest.mark.parametrize("phase", ["decode", "both", "separate", "forward"])
def test_too_few_steps_are_refused(phase: str) -> None:
    with pytest.raises(ValueError, match="4 steps are too few"):
        template.windows(phase, 4)


def test_too_many_steps_are_refused_before_any_list_is_made() -> None:
    with pytest.raises(ValueError, match="steps are too many"):
        template.windows("decode", 10**18)
    with pytest.raises(ValueError, match="warm-up steps are too many"):
        template.windows("decode", 10, 10**18)


def test_an_unknown_phase_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown phase 'train'"):
        template.windows("train", 10)


def closes_after(skip_first: int, wait: int, warmup: int, active: int) -> int:
    """torch_npu's own rule (scheduler.py, 2.13.0): the call that ends the last active step saves the window."""
    return skip_first + wait + warmup + active


@given(st.integers(1, 200))
def test_step_calls_close_the_window_with_one_to_spare(active: int) -> None:
    needed = closes_after(template.SKIP_FIRST, template.WAIT, template.PROFILER_WARMUP, active)
    assert template.step_calls(active) == needed + 1


class Recorder:
    """A torch and a profiler that write down what is called, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        npu = types.SimpleNamespace(
            synchronize=lambda: self.calls.append("synchronize"),
            set_device=lambda name: self.calls.append("set_device " + name),
            mem_get_info=lambda: (60, 64),
            device_count=lambda: 1,
            get_device_name=lambda index: "Ascend910B3",
            is_available=lambda: True,
        )
        self.torch = types.SimpleNamespace(npu=npu, inference_mode=contextlib.nullcontext, __version__="2.13.0")
        self.profiler = types.SimpleNamespace(
            profile=self.profile,
            schedule=lambda **schedule: schedule,
            tensorboard_trace_handler=lambda directory: directory,
            ProfilerActivity=types.SimpleNamespace(CPU="CPU", NPU="NPU"),
            ProfilerLevel=types.SimpleNamespace(Level0="Level0", Level1="Level1"),
            AiCMetrics=types.SimpleNamespace(PipeUtilization="pipe", AiCoreNone="none"),
            ExportType=types.SimpleNamespace(Text="text", Db="db"),
            _ExperimentalConfig=lambda **config: config,
        )
        self.torch_npu = types.SimpleNamespace(profiler=self.profiler, __version__="2.13.0")
        self.options: dict[str, Any] = {}

    @contextlib.contextmanager
    def profile(self, **options: Any) -> Any:
        self.options = options
        self.calls.append("start")
        yield types.SimpleNamespace(step=lambda: self.calls.append("step()"))
        self.calls.append("stop")

    def adapter(self, **functions: Any) -> Any:
        def run(kind: str) -> Any:
            def step(state: Any) -> str:
                self.calls.append(kind)
                return kind

            return step

        kinds = {kind: run(kind) for kind in ("prefill", "decode")}
        return types.SimpleNamespace(load=lambda device, options: {}, **{**kinds, **functions})


def run(recorder: Recorder, monkeypatch: pytest.MonkeyPatch, adapter: Any, **request: Any) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    monkeypatch.setattr(template, "import_torch", lambda: (recorder.torch, recorder.torch_npu))
    template.profile(
        adapter, {}, {**REQUEST, **request}, "out", lambda stage, **fields: events.append({"stage": stage, **fields})
    )
    return events


def test_every_step_is_synchronised_before_step_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    run(recorder, monkeypatch, recorder.adapter())
    inside = recorder.calls[recorder.calls.index("start") + 1 : recorder.calls.index("stop")]
    one_decode = ["decode", "synchronize", "step()"]
    assert inside == ["prefill", "synchronize", "step()"] * 2 + one_decode * 5 + ["step()"]


def test_warm_up_runs_before_the_profiler_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    events = run(recorder, monkeypatch, recorder.adapter(), warmup_steps=3)
    before = recorder.calls[: recorder.calls.index("start")]
    assert before.count("decode") == 1 + 3, "one precheck, three of warm-up"
    assert [e["kind"] for e in events if e["stage"] == "warmup"] == ["prefill"] * 3 + ["decode"] * 3
    assert [e["kind"] for e in events if e["stage"] == "profile"] == ["prefill"] + ["decode"] * 5


def test_decode_alone_gets_an_unrecorded_prefill(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    run(recorder, monkeypatch, recorder.adapter(), phase="decode")
    start = recorder.calls.index("start")
    assert recorder.calls[start - 2 : start] == ["prefill", "synchronize"]
    assert "prefill" not in recorder.calls[start:]


def test_separate_records_two_windows_into_two_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    events = run(recorder, monkeypatch, recorder.adapter(), phase="separate")
    assert recorder.calls.count("start") == recorder.calls.count("stop") == 2
    assert [e["window"] for e in events if e["stage"] == "parse"] == ["prefill", "decode"]


def test_the_profiler_gets_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    run(recorder, monkeypatch, recorder.adapter(), with_stack=True)
    assert recorder.options["schedule"] == {"skip_first": 0, "wait": 0, "warmup": 1, "active": 6, "repeat": 1}
    assert recorder.options["activities"] == ["CPU", "NPU"]
    assert recorder.options["with_stack"] is True
    assert recorder.options["experimental_config"] == {
        "profiler_level": "Level1",
        "aic_metrics": "pipe",
        "export_type": "text",
    }


def test_level_0_takes_no_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    run(recorder, monkeypatch, recorder.adapter(), level=0)
    assert recorder.options["experimental_config"]["aic_metrics"] == "none"


def test_an_empty_output_stops_before_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    with pytest.raises(template.TemplateError, match="the prefill step returned nothing"):
        run(recorder, monkeypatch, recorder.adapter(prefill=lambda state: None))
    assert "start" not in recorder.calls


def test_the_adapters_own_check_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, seen = Recorder(), []
    run(recorder, monkeypatch, recorder.adapter(check=seen.append))
    assert seen == ["prefill", "decode"]


def test_no_npu_is_never_profiled_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    recorder.torch.npu.is_available = lambda: False
    monkeypatch.setitem(__import__("sys").modules, "torch", recorder.torch)
    monkeypatch.setitem(__import__("sys").modules, "torch_npu", recorder.torch_npu)
    with pytest.raises(template.TemplateError, match=r"is_available\(\) is False") as caught:
        template.import_torch()
    assert caught.value.kind == "EnvironmentUnfit"
