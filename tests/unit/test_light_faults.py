"""The light runtime's faults, one test each: what is printed, what is left, how the process ends."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from test_light import ACTIVE3, Host, Profile


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


TASKS_AFTER_EXPORT = ["CANNExport", "CANNTimeline", "Relation", "CANNAnalyze", "OperatorView", "TraceView",
                      "KernelView", "TraceStepTime", "MemoryView", "Integrate", "Communication"]  # fmt: skip


def test_fault_export_fails(host: Host) -> None:
    run = host.run(ACTIVE3, SIMHOST_LIGHT_FAULTS="export_fails").ok()
    errors = run.messages("ERROR")
    assert errors[0] == "Failed to export CANN Profiling data. Error msg: Failed to export CANN TEXT Profiling data."
    assert errors[1:] == [f"Task [{name}Parser] run failed." for name in TASKS_AFTER_EXPORT]
    assert run.messages("INFO")[-1].startswith("All profiling data parsed in a total time of")
    assert host.profile().files() == {"analyse.done", "trace_view.json"}


def test_fault_truncated_trace(host: Host) -> None:
    run = host.run(ACTIVE3, SIMHOST_LIGHT_FAULTS="truncated_trace").ok()
    assert run.messages("ERROR") == ["Task [TraceViewParser] run failed."]
    assert host.profile().steps() == ["1", "2", "3"]
    with pytest.raises(json.JSONDecodeError):
        host.profile().trace()
    assert "[ERROR]" in "".join(path.read_text() for path in (host.profile().path / "logs").glob("*TraceView*"))


def test_fault_short_write(host: Host) -> None:
    host.run(ACTIVE3).ok()
    (whole,) = host.profiles()
    run = host.run("OUT += '/short'; " + ACTIVE3, SIMHOST_LIGHT_FAULTS="short_write").ok()
    assert run.messages("ERROR") == ["Task [KernelViewParser] run failed."]
    (short,) = (host.out / "short").rglob("kernel_details.csv")
    assert 0 < short.stat().st_size < (whole.output / "kernel_details.csv").stat().st_size


def test_fault_no_pmu_and_level0(host: Host) -> None:
    host.run(f"OUT += '/pmu'; {ACTIVE3}", SIMHOST_LIGHT_FAULTS="no_pmu").ok()
    run = host.run(f"OUT += '/level'; {ACTIVE3}", SIMHOST_LIGHT_FAULTS="level0").ok()
    assert run.messages("WARNING") == []
    pmu, level = (Profile(next((host.out / name).glob("*_ascend_pt"))) for name in ("pmu", "level"))
    assert len(pmu.columns("kernel_details.csv")) == 22
    assert pmu.info()["config"]["experimental_config"]["_profiler_level"] == "Level1"
    assert len(level.columns("kernel_details.csv")) == 9
    assert level.info()["config"]["experimental_config"]["_profiler_level"] == "Level0"


def test_fault_stop_raises(host: Host) -> None:
    run = host.run(ACTIVE3, SIMHOST_LIGHT_FAULTS="stop_raises").ok()
    assert any(message.startswith("Call stop failed. Exception: ") for message in run.messages("ERROR"))
    assert not list(host.profile().path.glob("profiler_info*.json"))
    assert not host.profile().output.exists()


@pytest.mark.parametrize(("fault", "status"), [("segfault_at_stop", -11), ("kill_at_parse", -9)])
def test_faults_that_kill(host: Host, fault: str, status: int) -> None:
    assert host.run(ACTIVE3, SIMHOST_LIGHT_FAULTS=fault).code == status


def test_fault_thread_segfault(host: Host) -> None:
    code = """
import threading
prof = P.profile(on_trace_ready=P.tensorboard_trace_handler(OUT))
prof.start(); step()
"""
    assert host.run(code + "prof.stop()", SIMHOST_LIGHT_FAULTS="thread_segfault").code == 0
    other = "t = threading.Thread(target=prof.stop); t.start(); t.join()"
    assert host.run(code + other, SIMHOST_LIGHT_FAULTS="thread_segfault").code == -11


def test_fault_slow_parse_shows_only_a_cursor(host: Host) -> None:
    run = host.run(ACTIVE3, SIMHOST_LIGHT_FAULTS="slow_parse=0.2").ok()
    assert "|\b" in run.out
    assert host.profile().steps() == ["1", "2", "3"]


def test_fault_no_profiler_info(host: Host) -> None:
    host.run(ACTIVE3, SIMHOST_LIGHT_FAULTS="no_profiler_info").ok()
    assert not list(host.profile().path.glob("profiler_info*.json"))


def test_fault_no_prof_dir(host: Host) -> None:
    run = host.run(ACTIVE3, SIMHOST_LIGHT_FAULTS="no_prof_dir").ok()
    assert run.messages("ERROR") == [
        "ProfilerActivity.NPU is set in activities, but CANN Profiling data does not exist."
    ]
    assert not list(host.profile().path.glob("PROF_*"))


def test_fault_lost_head_step(host: Host) -> None:
    host.run(ACTIVE3, SIMHOST_LIGHT_FAULTS="lost_head_step").ok()
    counts = Counter(row["Step Id"] for row in host.profile().table("kernel_details.csv"))
    assert 0 < counts["1"] < counts["2"] == counts["3"]
    # The host saw every operator.
    assert len(host.profile().table("operator_details.csv")) == 3 * counts["2"]
    host.run(f"OUT += '/all'; {ACTIVE3}", SIMHOST_LIGHT_FAULTS="lost_head_step=all").ok()
    assert Profile(next((host.out / "all").glob("*_ascend_pt"))).steps() == ["2", "3"]


def test_fault_strict_modes_refuses_what_others_may_write_to(host: Host) -> None:
    run = host.run("os.umask(0o002); " + ACTIVE3, SIMHOST_LIGHT_FAULTS="strict_modes").ok()
    assert "permission allow others users to write. Please execute chmod -R 755" in run.messages("ERROR")[0]
    run = host.run("os.umask(0o027); OUT += '/tight'; " + ACTIVE3, SIMHOST_LIGHT_FAULTS="strict_modes").ok()
    assert run.messages("ERROR") == []


def test_a_fault_that_does_not_exist_is_refused(host: Host) -> None:
    assert "no such fault: tired" in host.run(ACTIVE3, SIMHOST_LIGHT_FAULTS="tired").err


def test_fault_hang_at_stop_never_returns(host: Host) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        host.run(ACTIVE3, timeout=1, SIMHOST_LIGHT_FAULTS="hang_at_stop")
