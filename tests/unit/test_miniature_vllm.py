"""The miniature of vLLM by itself: what it does on a host when nobody helps it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_light import Profile

from checkouts import CANN, checkout, on
from harness import gone
from simhost import SimHost

Start = Callable[..., SimHost]
DAEMON = "The profiling data cannot be parsed during the daemon process"
SWITCH = {"profiler": "torch", "torch_profiler_dir": "profiled"}
NONE = "ACL_AICORE_NONE"
PIPE = "ACL_AICORE_PIPE_UTILIZATION"


class Server:
    """``vllm serve`` on a host, from its first line to its end."""

    def __init__(self, host: SimHost, folder: Path, arguments: str, **variables: str) -> None:
        self.folder, self._log = folder, folder / "server.log"
        self.port = free_port()
        env = " ".join(f"{name}='{value}'" for name, value in variables.items())
        command = f"cd {folder} && exec env {env} bin/vllm serve tiny --port {self.port} {arguments}"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [host.session],
                env={"SSH_ORIGINAL_COMMAND": f". {CANN}/set_env.sh && {command}"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def ready(self) -> Server:
        until = time.monotonic() + 60
        while "startup complete" not in self.log:
            assert self.process.poll() is None, self.log
            assert time.monotonic() < until, self.log
            time.sleep(0.02)
        return self

    def ask(self, path: str, body: Any = None, method: str = "POST") -> tuple[int, Any]:
        data = json.dumps(body).encode() if body is not None else b""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data if method == "POST" else None, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as refusal:
            status, text = refusal.code, refusal.read()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text.decode()

    def complete(self, prompt: Any, **more: Any) -> dict[str, Any]:
        status, answer = self.ask("/v1/completions", {"model": "tiny", "prompt": prompt, **more})
        assert status == 200, answer
        return dict(answer)

    def profiles(self) -> list[Profile]:
        return [Profile(path) for path in sorted((self.folder / "profiled").glob("*_ascend_pt"))]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def configuration(profile: Profile) -> tuple[str, str, list[str]]:
    config = profile.info()["config"]["experimental_config"]
    return config["_profiler_level"], config["_aic_metrics"], config["_export_type"]


def config(**more: Any) -> str:
    return f"--profiler-config '{json.dumps({**SWITCH, **more})}'"


@pytest.fixture
def serve(simhost: Start) -> Iterator[Callable[..., Server]]:
    with contextlib.ExitStack() as ends:
        started = []

        def start(arguments: str = "", version: str = "0.23.0", **variables: str) -> Server:
            host = simhost(f"ascend{len(started) + 1:02}")
            started.append(host)
            variables["VLLM_MINIATURE_VERSION"] = version
            server = Server(host, checkout(host, "vllm"), arguments, **variables)
            ends.callback(server.process.wait)
            ends.callback(server.process.kill)
            return server

        yield start


def test_it_answers_as_a_server_does(serve: Callable[..., Server]) -> None:
    server = serve("--max-model-len 100").ready()
    assert server.ask("/health", method="GET") == (200, "")
    assert server.ask("/v1/models", method="GET")[1]["data"][0]["id"] == "tiny"
    told = server.complete("one two three", max_tokens=10)
    assert told["choices"][0]["finish_reason"] == "stop"
    assert told["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    told = server.complete([1, 2, 3], max_tokens=10, ignore_eos=True)
    assert (told["choices"][0]["finish_reason"], told["usage"]["completion_tokens"]) == ("length", 10)
    told = server.complete([[1, 2, 3], [4]], max_tokens=2)
    assert [choice["index"] for choice in told["choices"]] == [0, 1]
    assert told["usage"] == {"prompt_tokens": 4, "completion_tokens": 4, "total_tokens": 8}
    assert server.ask("/v1/completions", {"model": "other", "prompt": "x"})[0] == 404
    assert server.ask("/v1/completions", {"prompt": [1] * 90, "max_tokens": 20})[0] == 400
    # Without its switch it knows of no profiler.
    assert server.ask("/start_profile") == (404, {"detail": "Not Found"})
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=30) == 0


@pytest.mark.parametrize(
    ("version", "metrics", "directory"),
    [
        ("0.11.0", NONE, r"(?!dp0)"),
        ("0.15.0rc1", NONE, r"(?!dp0)"),
        ("0.17.0rc1", NONE, r"dp0_pp0_tp0_dcp0_ep0_rank0_"),
        ("0.18.0", PIPE, r"dp0_pp0_tp0_dcp0_ep0_rank0_"),
        ("0.22.1rc1", NONE, r"dp0_pp0_tp0_dcp0_ep0_rank0_"),
        ("0.23.0", PIPE, r"dp0_pp0_tp0_dcp0_ep0_rank0_"),
    ],
)
def test_one_device_is_parsed_in_place_with_what_the_release_has(
    serve: Callable[..., Server], version: str, metrics: str, directory: str
) -> None:
    old = version == "0.11.0"
    folder = {"VLLM_TORCH_PROFILER_DIR": "profiled"} if old else {}
    server = serve("" if old else config(ignore_frontend=True), version, **folder).ready()
    assert server.ask("/start_profile") == (200, "")
    server.complete("a b c", max_tokens=3)
    assert server.ask("/stop_profile") == (200, "")
    (profile,) = server.profiles()
    assert configuration(profile) == ("Level1", metrics, ["text"])
    assert re.match(directory + r".*\d+_\d{17}_ascend_pt$", profile.path.name)
    assert "Step Id" not in profile.columns("kernel_details.csv")
    assert ("aic_mac_ratio" in profile.columns("kernel_details.csv")) is (metrics == PIPE)
    assert profile.info()["config"]["common_config"]["with_modules"] is True
    assert "Stop profiler while current state is RECORD" in server.log


def test_several_devices_are_daemons_and_leave_raw_data(serve: Callable[..., Server]) -> None:
    server = serve("-tp 2 " + config(ignore_frontend=True)).ready()
    server.ask("/start_profile")
    server.complete("a b c", max_tokens=3)
    assert server.ask("/stop_profile")[0] == 200
    profiles = server.profiles()
    assert [sorted(path.name for path in profile.path.glob("profiler_info*")) for profile in profiles] == [
        [f"profiler_info_{rank}.json"] for rank in (0, 1)
    ]
    assert not any(profile.output.exists() for profile in profiles)
    assert server.log.count(DAEMON) == 2


@pytest.mark.parametrize(("version", "recorded"), [("0.23.0", 4), ("0.18.0", 8)])
def test_a_window_counts_forwards_where_the_release_knows_one(
    serve: Callable[..., Server], version: str, recorded: int
) -> None:
    server = serve(config(delay_iterations=3, max_iterations=4), version).ready()
    server.ask("/start_profile")
    server.complete(list(range(24)), max_tokens=8, ignore_eos=True)
    server.ask("/stop_profile")
    (profile,) = server.profiles()
    embedded = [row for row in profile.table("operator_details.csv") if row["Name"] == "aten::embedding"]
    assert len(embedded) == recorded
    # The server's own process has a profile as well when it was not told to leave that.
    assert len(list((server.folder / "profiled").glob("*.async_llm.*"))) == 1


def test_a_prompt_that_was_there_before_is_not_computed_again(serve: Callable[..., Server]) -> None:
    server = serve(config(torch_profiler_with_stack=False, torch_profiler_record_shapes=True)).ready()
    for prompt in (list(range(40)), list(range(100, 140))):
        server.complete(prompt, max_tokens=1)
    server.ask("/start_profile")
    server.complete(list(range(40)), max_tokens=1)
    server.ask("/stop_profile")
    (profile,) = server.profiles()
    shapes = {row["Input Shapes"] for row in profile.table("kernel_details.csv")}
    assert any(re.search(r"\b8,64", shape) for shape in shapes), shapes
    assert not any(re.search(r"\b40,64", shape) for shape in shapes), shapes


def test_switches_that_a_release_does_not_know(serve: Callable[..., Server]) -> None:
    server = serve(config(), "0.11.0")
    assert server.process.wait(timeout=30) == 2
    assert "unrecognized arguments: --profiler-config" in server.log


def test_a_variable_that_is_no_switch_any_more(serve: Callable[..., Server]) -> None:
    server = serve(version="0.14.0", VLLM_TORCH_PROFILER_DIR="profiled").ready()
    assert server.ask("/start_profile")[0] == 404


def test_dotted_arguments_and_wrong_ones(serve: Callable[..., Server]) -> None:
    server = serve("--profiler-config.profiler=torch --profiler-config.torch_profiler_dir=profiled").ready()
    assert server.ask("/start_profile")[0] == 200
    wrong = serve(config(level="Level1"))
    assert wrong.process.wait(timeout=30) == 2
    assert "unexpected keyword argument 'level'" in wrong.log


def test_it_ends_with_its_worker(serve: Callable[..., Server]) -> None:
    server = serve("-tp 2 " + config(), VLLM_MINIATURE_TROUBLES="dies_serving=3").ready()
    server.ask("/start_profile")
    assert server.ask("/v1/completions", {"prompt": "a b c", "max_tokens": 8, "ignore_eos": True})[0] == 500
    assert server.process.wait(timeout=30) == 1
    loading = serve("-tp 2", VLLM_MINIATURE_TROUBLES="dies_loading")
    assert loading.process.wait(timeout=30) == 1
    assert "Engine core initialization failed" in loading.log
    assert "startup complete" not in loading.log


def test_refusals_at_the_stop(serve: Callable[..., Server]) -> None:
    server = serve(config(), VLLM_MINIATURE_TROUBLES="stop_500,slow_stop=0.3").ready()
    server.ask("/start_profile")
    begun = time.monotonic()
    assert server.ask("/stop_profile") == (500, "Internal Server Error")
    assert time.monotonic() - begun > 0.29


def test_killed_it_leaves_its_engine_and_workers(simhost: Start) -> None:
    host = simhost()
    server = Server(host, checkout(host, "vllm"), "-tp 2").ready()
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    time.sleep(0.5)
    assert not gone(host.processes, 0)
    assert len(host.held()) == 2


@pytest.mark.parametrize(("devices", "version"), [(1, "0.23.0"), (2, "0.23.0"), (1, "0.11.0")])
def test_offline_inference(simhost: Start, devices: int, version: str) -> None:
    host = simhost()
    folder = checkout(host, "vllm")
    old = "VLLM_TORCH_PROFILER_DIR=./vllm_profile" if version == "0.11.0" else ""
    run = on(host, f"cd {folder} && VLLM_MINIATURE_VERSION={version} {old} python3 offline.py {devices}")
    assert run.returncode == 0, run.stdout + run.stderr
    assert [line.split()[0] for line in run.stdout.splitlines() if line.startswith("8 ")] == ["8", "8"]
    profiles = [Profile(path) for path in (folder / "vllm_profile").glob("*_ascend_pt")]
    assert len(profiles) == devices
    assert [profile.output.exists() for profile in profiles] == ([True] if devices == 1 else [False, False])
    assert gone(host.processes)
