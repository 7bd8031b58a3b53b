"""A training job that runs already is asked to profile itself (PROF_CONFIG_PATH), and goes on as if it had not been."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from boxes import box, inside, manifest
from checkouts import CANN, MINIATURES, checkout
from harness import Tool, one_error
from simhost import SimHost

Start = Callable[..., SimHost]


class Job:
    """A training job in a session of `host` that looks at `directory`, by its shell's command line."""

    def __init__(self, host: SimHost, directory: Path, words: str, rank: int | None) -> None:
        directory.mkdir(exist_ok=True)
        self.directory, self.file = directory, directory / "profiler_config.json"
        self._log = host.home / f"{directory.name}{rank or ''}.log"
        ranked = "" if rank is None else f"RANK={rank} LOCAL_RANK={rank}"
        settings = f"PROF_CONFIG_PATH={directory} {ranked}"
        command = f". {CANN}/set_env.sh; exec env {settings} dynamic/train.sh {words} >{self._log} 2>&1"
        self._process = subprocess.Popen([host.session], env={"SSH_ORIGINAL_COMMAND": command})
        wait_for(lambda: self.reached(0) and self._is_asked)
        (log,) = directory.glob("log/dp_*" if rank is None else f"log/dp_*_rank_{rank}.log")
        self.pid = int(log.name.split("_")[-3])

    @property
    def state(self) -> tuple[bytes, float]:
        return self.file.read_bytes(), self.file.stat().st_mtime

    @property
    def _is_asked(self) -> bool:
        """Whether torch_npu's helper has written its file, whole."""
        with suppress(FileNotFoundError, json.JSONDecodeError):
            return bool(json.loads(self.file.read_text()))
        return False

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def reached(self, iteration: int) -> bool:
        return self._log.exists() and f"iteration {iteration}\n" in self._log.read_text()

    def end(self) -> None:
        """As Ctrl-C does: what is killed leaves its shared memory to the next."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)
        self._process.wait(timeout=30)


@pytest.fixture
def job() -> Iterator[Callable[..., Job]]:
    with ExitStack() as running:

        def start(host: SimHost, words: str = "--train-iters 100000", rank: int | None = None) -> Job:
            if not (host.home / "dynamic").exists():
                checkout(host, "dynamic")
            started = Job(host, host.home / "asked", words, rank)
            running.callback(started.end)
            return started

        yield start


def wait_for(what: Callable[[], Any], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def ask(tool: Tool, ascend: SimHost, directory: Path, **model: Any) -> None:
    tool.inventory(ascend, models={"job": {"route": "dynamic", "project": str(directory), **model}})


def test_a_job_that_runs_records_itself(host: Start, tool: Tool, job: Callable[..., Job], runtime: str) -> None:
    ascend = host(runtime=runtime)
    running = job(ascend)
    before = running.state
    ask(tool, ascend, running.directory)
    outcome = tool.collect(model="job")
    assert outcome.status == 0, outcome.err
    document = manifest(tool, outcome)
    (profile,) = document["profiles"]
    assert (document["route"], document["verdict"], document["devices"]) == ("dynamic", "valid", [])
    assert (profile["phase"], profile["level"], profile["metrics"]) == ("train", "Level1", "PipeUtilization")
    assert (len(profile["steps"]), profile["parsed"]["how"]) == (1, "offline")
    assert profile["steps"][0] > 11, "the job had gone on for long"
    (check,) = [check for check in document["checks"] if check["id"] == "device-shared"]
    assert check["verdict"] == "na"
    assert running.state == before
    assert sorted(path.name for path in running.directory.iterdir()) == ["log", "profiler_config.json"]
    assert running.runs
    assert list((ascend.workdir / "runs").iterdir()) == []


def test_a_job_is_asked_again(host: Start, tool: Tool, job: Callable[..., Job]) -> None:
    ascend = host()
    running = job(ascend)
    ask(tool, ascend, running.directory)
    for _ in range(2):
        outcome = tool.collect(model="job")
        assert outcome.status == 0, outcome.err
    assert running.runs


def test_ranks_of_many(host: Start, tool: Tool, job: Callable[..., Job]) -> None:
    ascend = host()
    first, _ = job(ascend, rank=0), job(ascend, rank=1)
    ask(tool, ascend, first.directory)
    for arguments, ranks in ((("--ranks", "1"), [1]), ((), [0, 1])):
        outcome = tool.collect("--devices", "2", *arguments, model="job")
        assert outcome.status == 0, outcome.err
        assert sorted(profile["rank"] for profile in manifest(tool, outcome)["profiles"]) == ranks
    message = "the job has no rank 2 on this host: it has 0, 1"
    one_error(tool.collect("--devices", "3", model="job"), 2, message=message, remedy="ask for a rank")


def test_no_job_was_started_there(host: Start, tool: Tool) -> None:
    ascend = host()
    ask(tool, ascend, ascend.home / "nowhere")
    one_error(tool.collect(model="job"), 5, message="nowhere, the project of model job, is not there", remedy="project")
    ask(tool, ascend, ascend.home)
    one_error(tool.collect(model="job"), 5, message="there is no profiler_config.json in", remedy="that variable")


def test_the_job_has_ended(host: Start, tool: Tool, job: Callable[..., Job]) -> None:
    ascend = host()
    running = job(ascend, "--train-iters 20")
    wait_for(lambda: not running.runs)
    before = running.state
    ask(tool, ascend, running.directory)
    one_error(tool.collect(model="job"), 5, message="no process that can be seen", remedy="PROF_CONFIG_PATH")
    assert running.state == before


def test_the_job_ends_before_it_has_recorded_a_step(host: Start, tool: Tool, job: Callable[..., Job]) -> None:
    ascend = host()
    running = job(ascend, "--train-iters 8 --step-seconds 0.5")
    ask(tool, ascend, running.directory)
    before = running.state
    message = r"rank 0 of the job \(pid \d+\) ended before"
    one_error(tool.collect(model="job"), 6, message=message, remedy="goes on for longer")
    assert running.state == before


def test_more_than_one_step(host: Start, tool: Tool, job: Callable[..., Job]) -> None:
    ascend = host()
    running = job(ascend)
    ask(tool, ascend, running.directory)
    message = "recorded for one step, not for 3"
    one_error(tool.collect("--steps", "3", model="job"), 2, message=message, remedy="leave --steps out")


def test_a_job_whose_steps_nobody_sees(host: Start, tool: Tool, job: Callable[..., Job]) -> None:
    ascend = host()
    running = job(ascend, "--train-iters 100000 --home-made-optimizer")
    ask(tool, ascend, running.directory, begin_timeout=2)
    one_error(tool.collect(model="job"), 6, message="took no notice within 2 s", remedy="begin_timeout")
    assert running.runs


def test_stopping_the_run_puts_the_file_back(host: Start, tool: Tool, job: Callable[..., Job]) -> None:
    ascend = host()
    running = job(ascend, "--train-iters 100000 --evaluate-at 40")
    before = running.state
    ask(tool, ascend, running.directory)
    collecting = tool.start("--host", "ascend01", "--model", "job")
    wait_for(lambda: json.loads(running.file.read_bytes())["start_step"] == -1)
    collecting.send_signal(signal.SIGINT)
    _, said = collecting.communicate(timeout=60)
    assert collecting.returncode == 130, said
    assert running.state == before
    assert running.runs


def test_no_device_need_be_free(host: Start, tool: Tool, job: Callable[..., Job]) -> None:
    ascend = host(npus=1, processes=[{"logic": 0, "pid": 4711, "name": "python", "mb": 9000}])
    running = job(ascend)
    ask(tool, ascend, running.directory)
    examined = tool("doctor", "--host", "ascend01", "--model", "job")
    assert examined.status == 0, examined.out
    assert "dynamic: profiler_config.json is what a job with PROF_CONFIG_PATH looks at" in examined.out
    shown = tool("--host", "ascend01", "--model", "job", "--dry-run")
    assert shown.status == 0, shown.err
    assert f"note      {running.file} is changed while the job records" in shown.out
    assert tool.collect(model="job").status == 0


def test_detached_and_fetched_later(host: Start, tool: Tool, job: Callable[..., Job]) -> None:
    ascend = host()
    ask(tool, ascend, job(ascend).directory)
    started = tool("--host", "ascend01", "--model", "job", "--detach", "--json")
    assert started.status == 0, started.err
    run = started.document["run_id"]
    assert run in tool("runs", "--host", "ascend01").out
    brought = tool("attach", run, "--host", "ascend01")
    assert brought.status == 0, brought.err
    assert "devices of the job" in brought.out


def test_a_job_in_a_container(host: Start, tool: Tool, tmp_path: Path) -> None:
    ascend = host(container_engine="docker")
    container = box(ascend, visible=[2])
    shutil.copytree(MINIATURES / "dynamic", container.outside(container.home) / "dynamic")
    sourced = f". {container.home}/Ascend/ascend-toolkit/set_env.sh"
    command = f"{sourced}; cd {container.home}; exec dynamic/train.sh --train-iters 100000"
    with subprocess.Popen(
        [ascend.session],
        env={"SSH_ORIGINAL_COMMAND": f'docker exec vllm bash -c "{command}"'},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            asked = container.outside(container.home) / "dynamic" / "prof_config"
            wait_for(lambda: (asked / "profiler_config.json").exists())
            before = (asked / "profiler_config.json").read_bytes()
            model = {"route": "dynamic", "project": f"{container.home}/dynamic/prof_config"}
            inside(tool, ascend, models={"job": model})
            outcome = tool.collect(model="job")
            assert outcome.status == 0, outcome.err
            assert manifest(tool, outcome)["container"]["name"] == "vllm"
            assert (asked / "profiler_config.json").read_bytes() == before
        finally:
            container.stop()
            process.wait(timeout=30)
