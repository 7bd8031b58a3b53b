"""The miniatures of ordinary scripts, and of a job that can be profiled while it runs, with nobody's help."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from checkouts import CANN, checkout, on
from simhost import SimHost

Start = Callable[..., SimHost]
Job = Callable[..., Path]


@pytest.fixture
def host(simhost: Start) -> SimHost:
    return simhost(server="asyncssh")


def profile(project: Path) -> Path:
    (found,) = project.rglob("*_ascend_pt")
    return found


def recorded(found: Path) -> tuple[str, str, list[str]]:
    """Level, metrics and step ids of a profile."""
    (path,) = found.glob("profiler_info*.json")
    config = json.loads(path.read_text())["config"]["experimental_config"]
    with (found / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").open(newline="") as file:
        steps = [row["Step"] for row in csv.DictReader(file)]
    return config["_profiler_level"], config["_aic_metrics"], steps


@pytest.mark.parametrize("command", ["generate.py --prompts 2", "pretrain.py --train-iters 5"])
def test_scripts_without_a_profiler_write_no_profile(host: SimHost, command: str) -> None:
    project = checkout(host, "scripts")
    done = on(host, f"cd scripts && python3 {command}")
    assert done.returncode == 0, done.stderr
    assert list(project.rglob("*_ascend_pt")) == []


@pytest.mark.parametrize(
    ("script", "directory", "steps"),
    [("pretrain_profiled.py", "prof", ["2", "3"]), ("pretrain_imported.py", "prof_imported", [""])],
)
def test_scripts_with_a_profiler_write_level_0(host: SimHost, script: str, directory: str, steps: list[str]) -> None:
    project = checkout(host, "scripts")
    done = on(host, f"cd scripts && python3 {script}")
    assert done.returncode == 0, done.stderr
    found = profile(project)
    assert found.parent.name == directory
    assert recorded(found) == ("Level0", "ACL_AICORE_NONE", steps)


def test_a_crash_leaves_no_profile(host: SimHost) -> None:
    checkout(host, "scripts")
    done = on(host, "cd scripts && python3 generate.py --crash-at 1")
    assert (done.returncode, done.stdout) == (1, "prompt 0: 56 tokens\n")
    assert "the tokenizer has no chat template" in done.stderr


# --- a job that runs already ---


@pytest.fixture
def job(host: SimHost) -> Iterator[Callable[..., Path]]:
    """Start a job that goes on meanwhile; the directory with its profiler_config.json."""
    with ExitStack() as running:

        def start(*arguments: str) -> Path:
            checkout(host, "dynamic")
            env = {"SSH_ORIGINAL_COMMAND": f". {CANN}/set_env.sh; dynamic/train.sh {' '.join(arguments)}"}
            log = running.enter_context((host.home / "job.log").open("w"))
            process = running.enter_context(subprocess.Popen([host.session], env=env, stdout=log, stderr=log))
            running.callback(process.kill)
            directory = host.home / "dynamic" / "prof_config"
            wait_for(lambda: "iteration 0" in said(host))
            return directory

        yield start


def said(host: SimHost) -> str:
    log = host.home / "job.log"
    return log.read_text() if log.exists() else ""


def wait_for(what: Callable[[], Any], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def ask(directory: Path, **what: Any) -> None:
    """Change the file so that it is noticed: whole seconds count."""
    path, changed = directory / "profiler_config.json", directory / "changed"
    changed.write_text(json.dumps({**json.loads(path.read_text()), **what}))
    later = time.time() + 2
    os.utime(changed, (later, later))
    changed.replace(path)


def log(directory: Path) -> str:
    return "".join(path.read_text() for path in directory.glob("log/dp_*"))


def test_a_job_records_when_its_file_changes(host: SimHost, job: Job) -> None:
    directory = job("--train-iters", "2000", "--step-seconds", "0.005")
    shown = json.loads((directory / "profiler_config.json").read_text())
    assert shown["experimental_config"] == {
        "profiler_level": "Level0",
        "aic_metrics": "AiCoreNone",
        "export_type": ["text"],
    }
    ask(directory, prof_dir=str(host.home / "out"), start_step=-1, active=3, warmup=1, analyse=True)
    wait_for(lambda: "Stop Dynamic Profiler" in log(directory))
    (begin,) = re.findall(r"Start Dynamic Profiler at (\d+) step", log(directory))
    level, _, steps = recorded(profile(host.home / "out"))
    assert level == "Level0"
    assert [int(step) - int(begin) for step in steps] == [1, 2, 3]


def test_a_step_that_is_over_is_warned_about(host: SimHost, job: Job) -> None:
    directory = job("--train-iters", "2000", "--step-seconds", "0.005")
    ask(directory, prof_dir=str(host.home / "out"), start_step=1)
    wait_for(lambda: "config is not effective. The start_step=1" in said(host))
    assert not (host.home / "out").exists()


def test_an_optimizer_of_ones_own_never_looks_at_the_file(host: SimHost, job: Job) -> None:
    directory = job("--train-iters", "700", "--step-seconds", "0.005", "--home-made-optimizer")
    ask(directory, prof_dir=str(host.home / "out"), start_step=-1)
    wait_for(lambda: "iteration 650" in said(host))
    assert not (host.home / "out").exists()


def test_a_job_that_ends_in_the_window_stops_the_profiler(host: SimHost, job: Job) -> None:
    directory = job("--train-iters", "700", "--step-seconds", "0.005")
    ask(directory, prof_dir=str(host.home / "out"), start_step=-1, active=100000)
    wait_for(lambda: "Profiler stop when process exit" in said(host))


def test_without_the_variable_there_is_no_file(host: SimHost) -> None:
    project = checkout(host, "dynamic")
    assert on(host, "python3 dynamic/train.py --train-iters 3 --step-seconds 0").returncode == 0
    assert sorted(path.name for path in project.iterdir()) == ["train.py", "train.sh"]
    # A file where a directory is meant: the job runs, nothing is recorded.
    done = on(host, "PROF_CONFIG_PATH=~/dynamic/train.py python3 dynamic/train.py --train-iters 3 --step-seconds 0")
    assert done.returncode == 0, done.stderr
    assert "is invalid, and profiler will not be enabled" in done.stdout
