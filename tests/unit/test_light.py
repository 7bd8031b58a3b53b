"""The light runtime's profiler: its states and its messages, against the rules of torch_npu 2.13.0.

The stand-in `torch` never enters this process: every test runs a small script in a Python of its own.
"""

from __future__ import annotations

import csv
import json
import re
import stat
import subprocess
import sys
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
EARLY = "Stop profiler while current state is"
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

    def run(
        self, code: str, prelude: str = PRELUDE, python: str = sys.executable, timeout: int = 60, **env: Any
    ) -> Run:
        done = subprocess.run(
            [python, "-B", "-c", prelude + code],
            env=self.environment(env),
            cwd=self.out.parent,
            capture_output=True,
            text=True,
            timeout=timeout,
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
            f"{EARLY} RECORD_AND_SAVE, perhaps the scheduling cycle has not yet completed.",
        ),
        (
            4,
            f"Incorrect schedule: {EARLY} RECORD which may result in incomplete parsed data.",
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
