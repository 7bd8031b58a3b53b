"""vLLM: a server that is talked to, a script of offline inference."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from checkouts import checkout, digests
from collected import Collected, level1
from harness import Outcome, Tool, gone, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]


class Place:
    """A host with the miniature in a directory of the user's."""

    def __init__(self, host: Start, tool: Tool, version: str = "0.23.0", runtime: str = "light", **env: str) -> None:
        self.ascend = host(runtime=runtime, versions={"vllm_ascend": version} if version else {}, env=env)
        self.tool = tool
        self.folder = checkout(self.ascend, "vllm")
        self.before = digests(self.folder)

    def collect(self, command: str, *arguments: str, **options: Any) -> Outcome:
        model = {"route": "vllm", "project": str(self.folder), "command": command, "prompt_tokens": 32, **options}
        self.tool.inventory(self.ascend, models={"served": model})
        return self.tool.collect(*arguments, model="served")

    def untouched(self) -> None:
        assert digests(self.folder) == self.before
        assert gone(self.ascend.processes)
        assert self.ascend.held() == {}


@pytest.mark.parametrize(("phase", "forwards"), [("both", 11), ("prefill", 1), ("decode", 10)])
def test_a_server(host: Start, tool: Tool, phase: str, forwards: int) -> None:
    place = Place(host, tool)
    found = Collected(tool, place.collect("bin/vllm serve tiny", "--phase", phase))
    assert found.profiles == level1(phase, 1)
    assert found.operators("aten::embedding", phase) == [forwards]
    assert found.manifest["phases"][phase]["warmup_kinds"] == ["request", "request"]
    place.untouched()


@pytest.mark.parametrize("version", ["0.11.0", "0.15.0rc1", "0.22.1rc1"])
def test_releases_that_record_no_counters(host: Start, tool: Tool, version: str) -> None:
    """Left alone they record AiCoreNone; 0.11.0 has another switch besides."""
    place = Place(host, tool, version)
    found = Collected(tool, place.collect("python3 -m vllm.entrypoints.openai.api_server --model tiny"))
    assert found.profiles == level1("both", 1)
    place.untouched()


def test_daemonic_workers(host: Start, tool: Tool, runtime: str) -> None:
    """Which torch_npu parses nothing in."""
    place = Place(host, tool, runtime=runtime)
    found = Collected(tool, place.collect("bin/vllm serve tiny --tensor-parallel-size 2", "--devices", "2"))
    assert found.profiles == level1("both", 2)
    assert found.operators("aten::embedding", "both") == [11, 11]
    place.untouched()


@pytest.mark.parametrize("passed_on", [' "$@"', ""])
def test_a_launch_script_and_a_profiler_config_of_its_own(host: Start, tool: Tool, passed_on: str) -> None:
    place = Place(host, tool)
    script = place.folder / "serve.sh"
    mine = json.dumps({"profiler": "torch", "torch_profiler_dir": str(place.folder / "mine")})
    script.write_text(
        f"#!/bin/bash\nexec bin/vllm serve tiny \\\n  --profiler-config '{mine}' --port 8000{passed_on}\n"
    )
    place.before = digests(place.folder)
    found = Collected(tool, place.collect("bash serve.sh", "--phase", "prefill", "--steps", "3", batch=2))
    assert found.operators("aten::embedding", "prefill") == [3]
    assert len(found.manifest["phases"]["prefill"]["step_seconds"]) == 3
    place.untouched()


def test_a_prompt_that_is_too_long_for_the_model(host: Start, tool: Tool, assert_clean: Clean) -> None:
    place = Place(host, tool)
    outcome = place.collect("bin/vllm serve tiny --max-model-len 40")
    one_error(outcome, 6, message="/v1/completions with 400 .*maximum context length is 40", remedy="read")
    assert_clean(place.ascend)


@pytest.mark.parametrize("troubles", ["slow_load=1", "slow_stop=1"])
def test_a_server_that_takes_its_time(host: Start, tool: Tool, troubles: str) -> None:
    place = Place(host, tool, VLLM_MINIATURE_TROUBLES=troubles)
    assert place.collect("bin/vllm serve tiny", "--phase", "prefill").status == 0
    place.untouched()


@pytest.mark.parametrize(
    ("troubles", "message"),
    [
        ("never_ready", "did not answer /v1/models with 200 within 1 s"),
        ("stop_500", "answered /stop_profile with 500"),
        ("dies_serving=3", "the server (answered /v1/completions with 500|ended during load)"),
        (
            "dies_loading",
            r"the server ended during ready \(/v1/models\) \(exit status 1\).*Engine core initialization",
        ),
    ],
)
def test_a_server_that_fails(host: Start, tool: Tool, assert_clean: Clean, troubles: str, message: str) -> None:
    place = Place(host, tool, VLLM_MINIATURE_TROUBLES=troubles)
    patience_s = 1 if troubles == "never_ready" else 60
    outcome = place.collect("bin/vllm serve tiny -tp 2", "--devices", "2", ready_timeout=patience_s)
    one_error(outcome, 6, message=message, remedy="read .*/run.log")
    place.untouched()
    assert_clean(place.ascend)


def test_a_server_without_its_switch(host: Start, tool: Tool, assert_clean: Clean) -> None:
    """It is not the release that is seen: the variable, which that would take, means nothing to it."""
    place = Place(host, tool, "0.11.0", VLLM_MINIATURE_VERSION="0.14.0")
    one_error(
        place.collect("bin/vllm serve tiny"), 6, message="answered /start_profile with 404 .*Not Found", remedy="read"
    )
    assert_clean(place.ascend)


def test_a_server_that_does_not_know_its_switch(host: Start, tool: Tool, assert_clean: Clean) -> None:
    place = Place(host, tool, "", VLLM_MINIATURE_VERSION="0.11.0")
    one_error(
        place.collect("bin/vllm serve tiny"), 6, message=r"\(exit status 2\): .*unrecognized arguments", remedy="read"
    )
    assert_clean(place.ascend)


@pytest.mark.parametrize(
    ("version", "command", "arguments", "status", "message"),
    [
        ("0.18.0", "bin/vllm serve tiny", ("--phase", "decode"), 5, "0.18.0 records from its start on"),
        ("0.23.0", "bin/vllm serve tiny -tp 4", ("--devices", "2"), 2, "has 4 ranks, and the request is for 2"),
        ("0.23.0", "bin/vllm serve tiny --data-parallel-size=2", (), 2, "several replicas"),
        ("0.23.0", "bin/vllm serve tiny", ("--phase", "forward"), 2, "cannot record --phase forward"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_starts(
    host: Start, tool: Tool, version: str, command: str, arguments: tuple[str, ...], status: int, message: str
) -> None:
    place = Place(host, tool, version)
    outcome = place.collect(command, *arguments)
    one_error(outcome, status, message=message, remedy=".")
    assert not (place.ascend.workdir / "runs").exists()


@pytest.mark.parametrize(("phase", "forwards"), [("both", 11), ("prefill", 1), ("decode", 10)])
def test_a_script_without_a_profiler(host: Start, tool: Tool, phase: str, forwards: int) -> None:
    place = Place(host, tool, "0.11.0")
    found = Collected(tool, place.collect("python3 plain.py 1 8", "--phase", phase, route="auto"))
    assert found.manifest["route"] == "vllm"
    assert found.profiles == level1(phase, 1)
    assert found.operators("aten::embedding", phase) == [forwards]
    (profile,) = found.manifest["profiles"]
    assert len(profile["steps"]) == forwards
    place.untouched()


@pytest.mark.parametrize("version", ["0.11.0", "0.23.0"])
def test_a_script_that_starts_its_profiler(host: Start, tool: Tool, version: str) -> None:
    place = Place(host, tool, version)
    found = Collected(tool, place.collect("python3 offline.py 2", "--devices", "2"))
    assert found.profiles == level1("both", 2)
    assert found.operators("aten::embedding", "both") == [8, 8]
    place.untouched()


@pytest.mark.slow
@pytest.mark.torch_npu
def test_offline_inference_with_the_real_torch_npu(host: Start, tool: Tool, ascend_runtime: str) -> None:
    place = Place(host, tool, "", ascend_runtime)
    found = Collected(tool, place.collect("python3 plain.py 2 5", "--devices", "2", "--phase", "decode"))
    assert found.profiles == level1("decode", 2)
    assert [len(profile["steps"]) for profile in found.manifest["profiles"]] == [10, 10]
    place.untouched()


def test_a_script_that_ends_too_early(host: Start, tool: Tool, assert_clean: Clean) -> None:
    place = Place(host, tool)
    outcome = place.collect("python3 plain.py 1 1", "--phase", "decode", "--steps", "20")
    one_error(outcome, 6, message="rank 0 made 1. steps of decode, and the window needs 2.", remedy="--steps")
    place.untouched()
    assert_clean(place.ascend)


def test_a_script_that_starts_its_profiler_records_what_it_likes(host: Start, tool: Tool) -> None:
    place = Place(host, tool)
    outcome = place.collect("python3 offline.py 1", "--phase", "decode")
    one_error(outcome, 2, message="starts and stops its profiler itself", remedy="--phase both")


def loading(place: Place) -> None:
    """Wait until the workers of a server that is never ready have their devices."""
    until = time.monotonic() + 60
    while len(place.ascend.held()) < 2:
        assert time.monotonic() < until
        time.sleep(0.05)


def begun(host: Start, tool: Tool) -> Place:
    place = Place(host, tool, VLLM_MINIATURE_TROUBLES="never_ready")
    assert place.collect("bin/vllm serve tiny -tp 2", "--devices", "2", "--dry-run").status == 0
    return place


def test_an_interrupt_ends_a_server_with_all_its_processes(host: Start, tool: Tool, assert_clean: Clean) -> None:
    place = begun(host, tool)
    process = tool.start("--host", "ascend01", "--model", "served", "--devices", "2")
    loading(place)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    place.untouched()
    assert_clean(place.ascend)


def test_what_a_killed_supervisor_leaves_of_a_server_is_cleaned(host: Start, tool: Tool, assert_clean: Clean) -> None:
    """The kernel ends the server, which is our child; its engine and workers notice nothing of that."""
    place = begun(host, tool)
    run = tool.collect("--detach", "--devices", "2", model="served").document["run_id"]
    loading(place)
    supervisor = json.loads((place.ascend.workdir / "runs" / run / "pid.json").read_text())["pid"]
    os.kill(supervisor, signal.SIGKILL)
    outcome = tool("clean", run, "--host", "ascend01", "--json")
    assert outcome.document["removed"] == [run], outcome.err
    place.untouched()
    assert_clean(place.ascend)
