"""The light runtime's profiler: states, messages, files and failures, each against the rules of torch_npu 2.13.0.

The stand-in `torch` never enters this process: every test runs a small script in a Python of its own.
"""

from __future__ import annotations

import csv
import json
import re
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

LIGHT = Path(__file__).resolve().parents[1] / "simhost" / "light"
MSPROF = '#!/bin/sh\ncase "$1" in --help) echo "Usage: msprof [--export] [--type=<text|db>]" ;; esac\n'
PRELUDE = """
import os, sys, time
import torch, torch_npu
from torch_npu import profiler as P
OUT = os.environ["OUT"]
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.SiLU(), torch.nn.Linear(128, 64))

def step(x=None):
    y = model(torch.ones(8, 64, device="npu:0"))
    torch.npu.synchronize()
    return y

def config(level="Level1", **more):
    return P._ExperimentalConfig(profiler_level=level, aic_metrics=P.AiCMetrics.PipeUtilization, **more)

def collect(steps, schedule, level="Level1", cpu=True, npu=True, handler=None, export="text", simplify=True, **more):
    kinds = [P.ProfilerActivity.CPU] * cpu + [P.ProfilerActivity.NPU] * npu
    handler = handler or P.tensorboard_trace_handler(OUT)
    ec = config(level, export_type=export, data_simplification=simplify)
    with P.profile(activities=kinds, schedule=schedule, on_trace_ready=handler, experimental_config=ec, **more) as prof:
        for _ in range(steps):
            step()
            prof.step()

model.to("npu:0")
step()
"""
ACTIVE3 = "collect(4, P.schedule(wait=0, warmup=1, active=3, repeat=1))"


class Host:
    """A directory with CANN's places in it, and the means to run Python there."""

    def __init__(self, root: Path) -> None:
        self.out = root / "out"
        self.driver = root / "driver"
        self.driver.mkdir()
        self.toolkit = root / "toolkit"
        self.msprof = self.toolkit / "tools" / "profiler" / "bin" / "msprof"
        self.script = self.toolkit / "tools" / "profiler" / "profiler_tool" / "analysis" / "msprof" / "msprof.py"
        for path, text in ((self.msprof, MSPROF), (self.script, "")):
            path.parent.mkdir(parents=True)
            path.write_text(text)
            path.chmod(0o755)

    def devices(self, *rows: str) -> None:
        (self.driver / "devices").write_text("".join(row + "\n" for row in rows))

    def environment(self, env: dict[str, Any]) -> dict[str, str]:
        base = {
            "PATH": f"{self.msprof.parent}:/usr/bin:/bin",
            "PYTHONPATH": str(LIGHT),
            "ASCEND_HOME_PATH": str(self.toolkit),
            "OUT": str(self.out),
            "HOME": str(self.out.parent),
        }
        merged = {**base, **{name: str(value) for name, value in env.items() if value is not None}}
        return {name: value for name, value in merged.items() if name not in env or env[name] is not None}

    def run(self, code: str, prelude: str = PRELUDE, python: str = sys.executable, **env: Any) -> Run:
        done = subprocess.run(
            [python, "-B", "-c", prelude + code],
            env=self.environment(env),
            cwd=self.out.parent,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Run(done.returncode, done.stdout, done.stderr)

    def profiles(self) -> list[Profile]:
        return [Profile(path) for path in sorted(self.out.glob("*_ascend_pt"))]

    def profile(self) -> Profile:
        (one,) = self.profiles()
        return one


class Run:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def ok(self) -> Run:
        assert self.code == 0, self.out + self.err
        return self

    def messages(self, level: str) -> list[str]:
        form = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] \[" + level + r"\] \[\d+\] profiler\.py: (.*)")
        return [found.group(1) for found in map(form.search, self.out.splitlines()) if found]


class Profile:
    """One `*_ascend_pt` directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.output = path / "ASCEND_PROFILER_OUTPUT"

    def files(self) -> set[str]:
        return {path.name for path in self.output.iterdir()}

    def table(self, name: str) -> list[dict[str, str]]:
        with (self.output / name).open(newline="") as file:
            return list(csv.DictReader(file))

    def columns(self, name: str) -> list[str]:
        with (self.output / name).open(newline="") as file:
            return next(csv.reader(file))

    def info(self) -> dict[str, Any]:
        (path,) = self.path.glob("profiler_info*.json")
        loaded: dict[str, Any] = json.loads(path.read_text())
        return loaded

    def trace(self) -> list[dict[str, Any]]:
        loaded: list[dict[str, Any]] = json.loads((self.output / "trace_view.json").read_text())
        return loaded

    def steps(self) -> list[str]:
        return [row["Step"] for row in self.table("step_trace_time.csv")]

    def kernel_steps(self) -> list[str]:
        return sorted({row["Step Id"] for row in self.table("kernel_details.csv")})


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


# --- the state table ---


@pytest.mark.parametrize(
    ("skip", "wait", "warmup", "active", "steps", "recorded"),
    [(0, 0, 1, 3, 4, ["1", "2", "3"]), (0, 0, 1, 3, 6, ["1", "2", "3"]), (2, 1, 1, 2, 6, ["4", "5"])],
)
def test_a_window_holds_the_steps_of_its_schedule(
    host: Host, skip: int, wait: int, warmup: int, active: int, steps: int, recorded: list[str]
) -> None:
    schedule = f"P.schedule(skip_first={skip}, wait={wait}, warmup={warmup}, active={active}, repeat=1)"
    run = host.run(f"collect({steps}, {schedule})").ok()
    assert run.messages("WARNING") == []
    assert host.profile().steps() == recorded
    assert host.profile().kernel_steps() == recorded


def test_a_schedule_without_warmup_is_warned_about(host: Host) -> None:
    run = host.run("collect(2, P.schedule(wait=0, active=2))").ok()
    assert run.messages("WARNING")[0] == "Profiler won't be using warmup, this can skew profiler results"
    assert host.profiles()[0].steps() == ["0", "1"]


@pytest.mark.parametrize(
    ("active", "said"),
    [
        (
            3,
            "Stop profiler while current state is RECORD_AND_SAVE, perhaps the scheduling cycle has not yet completed.",
        ),
        (
            4,
            "Incorrect schedule: Stop profiler while current state is RECORD which may result in incomplete parsed data.",
        ),
    ],
)
def test_leaving_early_is_warned_about_and_saved(host: Host, active: int, said: str) -> None:
    run = host.run(f"""
prof = P.profile(schedule=P.schedule(wait=0, warmup=1, active={active}, repeat=1), experimental_config=config(),
                 on_trace_ready=P.tensorboard_trace_handler(OUT))
prof.start()
for _ in range(3):
    step(); prof.step()
step()
prof.stop()
""").ok()
    assert run.messages("WARNING") == [said]
    # The step that was begun counts although nobody called step() after it.
    assert host.profile().steps() == ["1", "2", "3"]


def test_stopping_in_warmup_deletes_the_directory(host: Host) -> None:
    run = host.run("collect(1, P.schedule(wait=0, warmup=3, active=2))").ok()
    assert run.messages("WARNING") == [
        "Incorrect schedule: Stop profiler while current state is WARMUP which will result in empty parsed data."
    ]
    assert host.profiles() == []


def test_recording_that_ends_without_saving_is_never_handed_over(host: Host) -> None:
    plan = "[P.ProfilerAction.NONE, P.ProfilerAction.RECORD, P.ProfilerAction.NONE]"
    run = host.run(f"collect(2, lambda i: {plan}[i])").ok()
    assert run.messages("WARNING") == ["Incorrect schedule: RECORD followed by NONE"]
    assert not host.profile().output.exists()
    assert host.profile().info()["config"]["common_config"]["schedule"] == {}


def test_each_repetition_has_a_directory(host: Host) -> None:
    host.run("collect(6, P.schedule(wait=1, warmup=0, active=2, repeat=2))").ok()
    assert [profile.steps() for profile in host.profiles()] == [["1", "2"], ["4", "5"]]


def test_without_a_schedule_no_step_is_known(host: Host) -> None:
    run = host.run("collect(2, None)").ok()
    assert "RECORD which may result in incomplete" in run.messages("WARNING")[0]
    profile = host.profile()
    assert profile.steps() == [""]
    assert "Step Id" not in profile.columns("kernel_details.csv")


def test_the_last_built_handler_names_the_directory(host: Host) -> None:
    host.run("""
first = P.tensorboard_trace_handler(OUT + "/first", worker_name="one")
second = P.tensorboard_trace_handler(OUT + "/second", worker_name="two")
collect(2, P.schedule(wait=0, warmup=1, active=1), handler=first)
""").ok()
    (directory,) = host.out.rglob("*_ascend_pt")
    assert directory.parent.name == "second"
    assert re.fullmatch(r"two_\d+_\d{17}_ascend_pt", directory.name)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o750


def test_stepping_a_stopped_profiler_has_no_effect(host: Host) -> None:
    run = host.run("prof = P.profile(); prof.start(); prof.stop(); prof.step()", ASCEND_WORK_PATH=host.out).ok()
    assert run.messages("WARNING")[-1] == "Profiler is stopped, step takes no effect!"
    # Without a handler the data go where ASCEND_WORK_PATH says.
    assert len(list((host.out / "profiling_data").glob("*_ascend_pt"))) == 1


def test_without_a_handler_only_a_trace_can_be_exported(host: Host) -> None:
    # As in the wheel, the directory of `profile` stays, that of `_KinetoProfile` goes with the object.
    host.run("""
os.makedirs(OUT)
with P.profile(experimental_config=config()) as prof:
    step()
prof.export_chrome_trace(OUT + "/trace.json")
(kept,) = os.listdir("export_only_prof_dir")
by_hand = P._KinetoProfile(experimental_config=config())
by_hand.start(); step(); by_hand.stop()
by_hand.export_chrome_trace(OUT + "/by_hand.json")
assert len(os.listdir("export_only_prof_dir")) == 2
del by_hand
assert os.listdir("export_only_prof_dir") == [kept]
""").ok()
    for name in ("trace.json", "by_hand.json"):
        names = {event["name"] for event in json.loads((host.out / name).read_text())}
        assert {"aten::addmm", "Computing"} <= names


# --- what it says ---


def test_exceptions_become_one_line_and_exit_status_0(host: Host) -> None:
    run = host.run("P.profile(experimental_config=config()).export_chrome_trace('trace.txt')").ok()
    assert run.messages("ERROR") == [
        "Call export_chrome_trace failed. Exception: Invalid parameter output_path, which must be a json file."
    ]


def test_warnings_are_for_rank_0_errors_for_all(host: Host) -> None:
    code = "P.schedule(wait=0, warmup=0, active=0); P.profile().export_chrome_trace('')"
    for env, warned in (({"RANK": 1}, False), ({"TORCH_NPU_WARNING_DISABLE": 1}, False), ({"RANK": 0}, True)):
        run = host.run(code, **env).ok()
        assert bool(run.messages("WARNING")) is warned
        assert len(run.messages("ERROR")) == 1


def test_configuration_mistakes_are_corrected_and_named(host: Host) -> None:
    run = host.run("""
ec = P._ExperimentalConfig(profiler_level="level1", aic_metrics="pipe", l2_cache="yes", export_type=["csv"])
print(ec._profiler_level, ec._aic_metrics, ec._l2_cache, ec.export_type)
print(P._ExperimentalConfig()._aic_metrics)
""").ok()
    assert run.messages("WARNING") == [
        "Invalid parameter l2_cache, which must be of bool type, reset it to False.",
        "Invalid parameter profiler_level, reset it to ProfilerLevel.Level0.",
        "Invalid parameter aic_metrics, reset it to default.",
        "Invalid parameter export_type, reset it to text.",
        "Please use level1 or level2 if you want to collect aic metrics, reset aic metrics to None!",
    ]
    assert "Level0 ACL_AICORE_NONE False ['text']" in run.out
    assert run.out.endswith("ACL_AICORE_NONE\n")


def test_under_msprof_the_profiler_does_nothing(host: Host) -> None:
    run = host.run(ACTIVE3, PROFILING_MODE="dynamic").ok()
    assert "Please execute 'unset PROFILING_MODE'." in run.messages("WARNING")[0]
    assert host.profiles() == []


def test_odd_paths_are_warned_about_or_refused_by_older_releases(host: Host) -> None:
    code = f"OUT += '/bs=8'; {ACTIVE3}"
    assert "Invalid input path: " in host.run(code).ok().err
    assert len(list((host.out / "bs=8").glob("*_ascend_pt"))) == 1
    run = host.run(f"OUT += '/a+b'; {ACTIVE3}", SIMHOST_LIGHT_FAULTS="strict_paths").ok()
    assert run.messages("ERROR")[0].startswith("Call tensorboard_trace_handler failed. Exception: Invalid input path:")
    assert not (host.out / "a+b").exists()


def test_daemons_do_not_parse_but_anybody_can_later(host: Host) -> None:
    # A daemonic child may use the device when its parent has not: the model is moved there.
    run = host.run(
        f"""
import multiprocessing
def work():
    import torch
    exec({PRELUDE!r} + {ACTIVE3!r}, globals())
child = multiprocessing.Process(target=work, daemon=True)
child.start()
child.join()
""",
        prelude="",
    ).ok()
    assert run.messages("ERROR")[0].startswith("The profiling data cannot be parsed during the daemon process")
    assert not host.profile().output.exists()
    host.run("torch_npu.profiler.profiler.analyse(OUT)").ok()
    assert host.profile().steps() == ["1", "2", "3"]


def test_a_handler_may_leave_parsing_for_later_or_to_another_process(host: Host) -> None:
    host.run(
        "collect(4, P.schedule(wait=0, warmup=1, active=3, repeat=1), "
        "handler=P.tensorboard_trace_handler(OUT, analyse_flag=False))"
    ).ok()
    assert not host.profile().output.exists()
    run = host.run(
        "collect(4, P.schedule(wait=0, warmup=1, active=3, repeat=1), "
        "handler=P.tensorboard_trace_handler(OUT + '/async', async_mode=True))"
    ).ok()
    assert "Start parsing profiling data in async mode at: " in run.messages("INFO")[0]
    assert list((host.out / "async").rglob("analyse.done"))


@pytest.mark.parametrize("missing", ["msprof", "script"])
def test_without_msprof_only_an_open_trace_is_left(host: Host, missing: str) -> None:
    (host.msprof if missing == "msprof" else host.script).unlink()
    run = host.run(ACTIVE3).ok()
    words = "'msprof' command not found!" if missing == "msprof" else "Failed to find msprof.py path in"
    assert words in run.messages("ERROR")[0]
    assert host.profile().files() == {"analyse.done", "trace_view.json"}
    with pytest.raises(json.JSONDecodeError):
        host.profile().trace()
    # The raw data are still there: with CANN sourced, the same directory can be analysed again.
    host.msprof.write_text(MSPROF)
    host.msprof.chmod(0o755)
    host.script.touch()
    host.run("P.analyse(OUT)").ok()
    assert host.profile().steps() == ["1", "2", "3"]


# --- what it writes ---


def union(intervals: list[tuple[Decimal, Decimal]]) -> Decimal:
    total, end = Decimal(0), None
    for start, stop in sorted(intervals):
        total += stop - (start if end is None or start > end else min(end, stop))
        end = stop if end is None else max(end, stop)
    return total


def test_level1_has_the_named_files_and_columns(host: Host) -> None:
    host.run(ACTIVE3, RANK=0).ok()
    profile = host.profile()
    assert profile.files() == {
        "analyse.done", "api_statistic.csv", "kernel_details.csv", "op_statistic.csv", "operator_details.csv",
        "step_trace_time.csv", "trace_view.json",
    }  # fmt: skip
    columns = profile.columns("kernel_details.csv")
    assert len(columns) == 47
    assert columns[:2] == ["Step Id", "Device_id"]
    assert {"aic_mac_ratio", "aiv_vec_ratio", "cube_utilization(%)"} <= set(columns)
    assert len(profile.columns("step_trace_time.csv")) == 11
    assert len(profile.columns("operator_details.csv")) == 9
    rows = profile.table("kernel_details.csv")
    assert len(set(Counter(row["Step Id"] for row in rows).values())) == 1
    cores = {row["Accelerator Core"] for row in rows}
    assert {"AI_CORE", "AI_VECTOR_CORE"} <= cores
    assert any(Decimal(row["aic_mac_ratio"]) > 0 for row in rows if row["Accelerator Core"] == "AI_CORE")
    info = profile.info()
    assert info["rank_id"] == "0"
    assert info["config"]["experimental_config"]["_aic_metrics"] == "ACL_AICORE_PIPE_UTILIZATION"
    assert info["config"]["common_config"]["schedule"]["active"] == 3
    assert info["torch_npu_version"] == "2.13.0"
    metadata = json.loads((profile.path / "profiler_metadata.json").read_text())
    assert len(metadata["ENV_VARIABLES"]) == 9
    assert {path.name.split("_")[0] for path in profile.path.iterdir() if path.is_dir()} == {
        "ASCEND", "FRAMEWORK", "PROF", "logs",
    }  # fmt: skip


def test_times_agree_across_the_files_to_the_last_digit(host: Host) -> None:
    host.run("collect(6, P.schedule(wait=0, warmup=1, active=5, repeat=1))").ok()
    profile = host.profile()
    kernels = profile.table("kernel_details.csv")
    durations = [Decimal(row["Duration(us)"]) for row in kernels]
    for row in profile.table("step_trace_time.csv"):
        spans = [
            (Decimal(k["Start Time(us)"].strip()), Decimal(k["Start Time(us)"].strip()) + Decimal(k["Duration(us)"]))
            for k in kernels
            if k["Step Id"] == row["Step"]
        ]
        assert Decimal(row["Computing"]) == union(spans)
        device = Decimal(row["Stage"]) + Decimal(row["Bubble"])
        assert device == max(end for _, end in spans) - min(start for start, _ in spans)
        assert (
            Decimal(row["Computing"]) + Decimal(row["Communication(Not Overlapped)"]) + Decimal(row["Free"]) == device
        )
        assert Decimal(row["Preparing"]) > 0
    operators = profile.table("op_statistic.csv")
    assert sum(Decimal(row["Total Time(us)"]) for row in operators) == sum(durations)
    assert sum(int(row["Count"]) for row in operators) == len(kernels)
    assert abs(sum(Decimal(row["Ratio(%)"]) for row in operators) - 100) < Decimal("0.01")


def test_the_trace_is_one_complete_list(host: Host) -> None:
    host.run("collect(4, P.schedule(wait=0, warmup=1, active=3, repeat=1), record_shapes=True, with_stack=True)").ok()
    trace = host.profile().trace()
    processes = {event["args"]["name"] for event in trace if event["name"] == "process_name"}
    assert processes == {"Python", "CANN", "Ascend Hardware", "Overlap Analysis"}
    assert {event["name"] for event in trace if event["name"].startswith("ProfilerStep#")} == {
        "ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3",
    }  # fmt: skip
    slices = [event for event in trace if event["ph"] == "X"]
    assert all(re.fullmatch(r"\d+\.\d{3}", event["ts"]) and event["dur"] >= 0 for event in slices)
    flows = Counter((event["cat"], event["ph"]) for event in trace if event["ph"] in "sf")
    for category in ("async_npu", "HostToDevice", "async_task_queue"):
        assert flows[category, "s"] == flows[category, "f"] == len(host.profile().table("kernel_details.csv"))
    linear = next(event for event in slices if event["name"] == "aten::addmm")
    assert linear["args"]["Input Dims"].split(";\r\n")[0] == "8,64"
    assert "<string>" in linear["args"]["Call stack"]


@pytest.mark.parametrize(
    ("asked", "columns", "missing", "warned"),
    [
        ("level='Level0'", 9, {"op_statistic.csv", "api_statistic.csv"}, True),
        ("npu=True, cpu=False", 46, {"operator_details.csv"}, False),
        ("cpu=True, npu=False", 0, {"kernel_details.csv", "step_trace_time.csv", "op_statistic.csv"}, True),
        ("level='Level2'", 47, set(), False),
    ],
)
def test_other_configurations_leave_files_and_columns_out(
    host: Host, asked: str, columns: int, missing: set[str], warned: bool
) -> None:
    run = host.run(f"collect(4, P.schedule(wait=0, warmup=1, active=3, repeat=1), {asked})").ok()
    assert bool(run.messages("WARNING")) is warned
    profile = host.profile()
    assert not missing & profile.files()
    assert isinstance(profile.trace(), list)
    if columns:
        assert len(profile.columns("kernel_details.csv")) == columns


def test_memory_is_recorded_on_request(host: Host) -> None:
    host.run("collect(4, P.schedule(wait=0, warmup=1, active=3, repeat=1), profile_memory=True)").ok()
    profile = host.profile()
    rows = profile.table("operator_memory.csv")
    assert len(profile.columns("operator_memory.csv")) == 15
    assert {"aten::addmm", "aten::silu"} <= {row["Name"] for row in rows}
    assert any(row["Release Time(us)"] for row in rows)
    assert len(profile.columns("memory_record.csv")) == 7
    assert len(profile.columns("npu_module_mem.csv")) == 5


def test_databases_instead_of_text(host: Host) -> None:
    host.run("collect(4, P.schedule(wait=0, warmup=1, active=3, repeat=1), export='db')", RANK=3).ok()
    profile = host.profile()
    assert profile.files() == {"analyse.done", "ascend_pytorch_profiler_3.db", "analysis.db"}
    with sqlite3.connect(profile.output / "ascend_pytorch_profiler_3.db") as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        wanted = {"TASK", "COMPUTE_TASK_INFO", "TASK_PMU_INFO", "STRING_IDS", "CANN_API", "PYTORCH_API", "STEP_TIME"}
        assert wanted <= tables
        counters = db.execute("SELECT value FROM STRING_IDS WHERE id IN (SELECT name FROM TASK_PMU_INFO)").fetchall()
        assert ("aic_mac_ratio",) in counters
        (computing,) = db.execute("SELECT SUM(endNs - startNs) FROM TASK").fetchone()
    with sqlite3.connect(profile.output / "analysis.db") as db:
        rows = db.execute("SELECT step, computing FROM StepTraceTime").fetchall()
    assert [step for step, _ in rows] == ["1", "2", "3"]
    assert sum(time for _, time in rows) * 1000 == pytest.approx(computing, abs=1)
    # A window that was recorded for the database can be turned into text later.
    host.run("P.analyse(OUT, export_type=['text'])").ok()
    assert "kernel_details.csv" in profile.files()


def test_an_old_cann_cannot_export_databases(host: Host) -> None:
    host.msprof.write_text("#!/bin/sh\n")
    run = host.run("collect(2, P.schedule(wait=0, warmup=1, active=1, repeat=1), export='db')").ok()
    assert "Current CANN package version does not support export db." in run.messages("ERROR")[0]


def test_canns_own_files_stay_only_in_unsimplified_data(host: Host) -> None:
    host.run("collect(4, P.schedule(wait=0, warmup=1, active=3, repeat=1), simplify=False)").ok()
    (summary,) = host.profile().path.glob("PROF_*/mindstudio_profiler_output/op_summary_*.csv")
    with summary.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["Op Name"] for row in rows] == [row["Name"] for row in host.profile().table("kernel_details.csv")]


def test_a_model_on_the_cpu_leaves_no_kernels(host: Host) -> None:
    run = host.run(
        """
model.cpu()
def step():
    model(torch.ones(8, 64))
"""
        + ACTIVE3
    ).ok()
    assert run.messages("ERROR")[0].startswith("Failed to get acl to npu flow events.")
    assert "kernel_details.csv" not in host.profile().files()
    assert isinstance(host.profile().trace(), list)


# --- faults ---

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
    host.run(f"OUT += '/all'; {ACTIVE3}", SIMHOST_LIGHT_FAULTS="lost_head_step=all").ok()
    assert Profile(next((host.out / "all").glob("*_ascend_pt"))).steps() == ["2", "3"]


def test_fault_strict_modes_refuses_what_others_may_write_to(host: Host) -> None:
    run = host.run("os.umask(0o002); " + ACTIVE3, SIMHOST_LIGHT_FAULTS="strict_modes").ok()
    assert "permission allow others users to write. Please execute chmod -R 755" in run.messages("ERROR")[0]
    run = host.run("os.umask(0o027); OUT += '/tight'; " + ACTIVE3, SIMHOST_LIGHT_FAULTS="strict_modes").ok()
    assert run.messages("ERROR") == []


def test_a_fault_that_does_not_exist_is_refused(host: Host) -> None:
    assert "no such fault: tired" in host.run(ACTIVE3, SIMHOST_LIGHT_FAULTS="tired").err
