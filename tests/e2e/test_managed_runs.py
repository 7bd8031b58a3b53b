"""Runs outlive who started them: left alone, listed, gone on with, stopped and removed, also from another machine."""

from __future__ import annotations

import itertools
import json
import operator
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import Outcome, Tool, gone, leases, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]

MODEL = """
import os, time
import torch

def load(device, options):
    while not os.path.exists(options["gate"]):
        time.sleep(0.05)
    if options["fails"]:
        raise RuntimeError("no such layer")
    return torch.ones(4, 4).to(device)

def forward(state):
    return state @ state
"""


class Lab:
    """A host, and a model that waits for `go()` while it is loaded."""

    def __init__(self, host: SimHost, tool: Tool, gate: Path) -> None:
        self.host, self.tool, self._gate = host, tool, gate
        self.model()

    def model(self, *, fails: bool = False) -> None:
        (self.tool.directory / "gated.py").write_text(MODEL)
        self.tool.inventory(
            self.host, models={"gated": {"adapter": "./gated.py", "gate": str(self._gate), "fails": fails}}
        )

    def go(self) -> None:
        self._gate.touch()

    def detach(self, *arguments: str) -> str:
        outcome = self.tool.collect("--detach", *arguments, model="gated")
        assert outcome.status == 0, outcome.err
        return str(outcome.document["run_id"])

    def runs(self) -> dict[str, dict[str, Any]]:
        return {run["run"]: run for run in self.ask("runs").document["runs"]}

    def ask(self, command: str, *arguments: str) -> Outcome:
        return self.tool(command, *arguments, "--host", "ascend01", "--json")

    def until(self, run: str, **wanted: Any) -> dict[str, Any]:
        until = time.monotonic() + 30
        while True:
            found = self.runs()[run]
            if all(found[key] == value for key, value in wanted.items()):
                return found
            assert time.monotonic() < until, found

    def abandon(self) -> str:
        """A run whose controller was killed while the model is loaded."""
        process = self.tool.start("--host", "ascend01", "--model", "gated")
        assert process.stderr is not None
        assert any("loading the model" in line for line in process.stderr)
        process.kill()
        process.communicate()
        ((run, _),) = self.runs().items()
        return run


@pytest.fixture
def lab(host: Start, tool: Tool, tmp_path: Path) -> Lab:
    return Lab(host(), tool, tmp_path / "gate")


def test_a_detached_run_is_attached_from_another_machine(lab: Lab, tmp_path: Path, assert_clean: Clean) -> None:
    run = lab.detach()
    found = lab.until(run, stage="load")
    assert (found["state"], found["model"], found["orphan_s"]) == ("running", "gated", None)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "inventory.yaml").write_text((lab.tool.directory / "inventory.yaml").read_text())
    (elsewhere / "gated.py").write_text(MODEL)
    lab.go()
    outcome = Tool(elsewhere)("attach", run, "--host", "ascend01", "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.document["verdict"] == "valid"
    assert (elsewhere / "profiles/ascend01/gated" / run / "profile_l1.tar.gz").exists()
    assert lab.runs() == {}
    assert_clean(lab.host)


def test_the_id_is_told_where_stdout_takes_nothing(lab: Lab) -> None:
    with Path("/dev/full").open("w") as full:
        outcome = lab.tool.start("--host", "ascend01", "--model", "gated", "--detach", stdout=full)
        _, said = outcome.communicate(timeout=60)
    (run,) = lab.runs()
    assert outcome.returncode == 8
    assert "cannot write the result to stdout" in said
    assert f"run {run} is going on: `collect-remote attach {run} --host ascend01` follows it" in said
    assert "Traceback" not in said
    assert lab.ask("stop", run).status == 0


def test_a_result_waits_until_it_is_fetched(lab: Lab) -> None:
    lab.go()
    run = lab.detach()
    lab.until(run, state="finished")
    assert lab.ask("clean").document == {"removed": [], "kept": {run: "its result was not fetched"}, "freed": 0}
    outcome = lab.ask("attach", run, "--out", "here")
    assert outcome.status == 0, outcome.err
    assert (lab.tool.directory / "here" / "manifest.json").exists()
    one_error(lab.ask("attach", run), 2, message=f"no run '{run}' on ascend01", remedy="runs there: none")


def test_the_run_of_a_killed_controller_is_gone_on_with(lab: Lab, assert_clean: Clean) -> None:
    run = lab.abandon()
    lab.go()
    outcome = lab.ask("attach", run)
    assert outcome.status == 0, outcome.err
    assert outcome.document["run_id"] == run


def test_a_run_on_a_host_that_stays_away_is_brought_later(lab: Lab, assert_clean: Clean) -> None:
    process = lab.tool.start("--host", "ascend01", "--model", "gated", "--json", "--reconnect-for", "2s")
    assert process.stderr is not None
    said = "".join(itertools.takewhile(lambda line: "loading the model" not in line, process.stderr))
    lab.host.kill_server()
    out, err = process.communicate(timeout=60)
    (run,) = (path.name for path in (lab.host.workdir / "runs").iterdir())
    lost = one_error(
        Outcome(process.returncode, out, said + err),
        3,
        message="lost the connection and could not get it back",
        remedy=f"`collect-remote attach {run} --host ascend01` follows it, `collect-remote stop {run} --host ascend01`",
    )
    assert lost["kind"] == "UnreachableError"
    lab.host.restart_server()
    lab.go()
    outcome = lab.ask("attach", run)
    assert outcome.status == 0, outcome.err


def test_a_login_that_is_refused_for_a_while_is_no_end(lab: Lab, assert_clean: Clean) -> None:
    process = lab.tool.start("--host", "ascend01", "--model", "gated", "--json")
    assert process.stderr is not None
    said = "".join(itertools.takewhile(lambda line: "loading the model" not in line, process.stderr))
    lab.host.set_state(accept_key=False)
    lab.host.drop_connections()
    time.sleep(2)
    lab.host.set_state(accept_key=True)
    lab.go()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, said + err
    assert json.loads(out)["verdict"] == "valid"


def test_several_who_follow_a_run_learn_what_became_of_its_result(lab: Lab) -> None:
    run = lab.detach()
    lab.until(run, stage="load")
    places = [lab.tool.directory / name for name in ("a", "b", "c")]
    attached = [lab.tool.start("attach", run, "--host", "ascend01", "--json", "--out", str(place)) for place in places]
    time.sleep(2)
    lab.go()
    ends = [process.communicate(timeout=60)[0] for process in attached]
    good = [process.returncode == 0 for process in attached]
    assert any(good), ends
    for out in itertools.compress(ends, map(operator.not_, good)):
        assert re.search("somebody else has fetched|there is no run", json.loads(out)["error"]["message"]), out


def test_a_run_is_stopped_by_its_id(lab: Lab, tmp_path: Path, assert_clean: Clean) -> None:
    run = lab.detach()
    lab.until(run, stage="load")
    outcome = lab.ask("stop", run)
    assert (outcome.status, outcome.document) == (0, {"run": run, "was": "running", "left": []})
    assert_clean(lab.host)
    found = lab.runs()[run]
    assert (found["state"], found["message"], found["processes"]) == ("failed", "the run was stopped on request", 0)
    one_error(lab.ask("attach", run), 130, message="stopped on request", remedy="start it again")
    assert lab.ask("stop", run).document["was"] == "failed"
    assert lab.ask("clean").document["removed"] == [run]
    assert list((lab.host.workdir / "runs").iterdir()) == []


def test_a_running_one_is_never_removed(lab: Lab) -> None:
    run = lab.detach()
    for arguments in ([], [run], ["--results"]):
        assert lab.ask("clean", *arguments).document["kept"] == {run: "it is running"}
    lab.ask("stop", run)


def test_an_attached_run_that_needs_no_follower_survives_a_ctrl_c(lab: Lab) -> None:
    run = lab.detach()
    lab.until(run, stage="load")
    process = lab.tool.start("attach", run, "--host", "ascend01")
    assert process.stderr is not None
    assert any("loading the model" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"run {run} goes on: `collect-remote attach {run} --host ascend01` follows it" in err
    assert lab.runs()[run]["state"] == "running"
    lab.ask("stop", run)


def test_why_a_detached_run_failed_is_told_later(lab: Lab) -> None:
    lab.model(fails=True)
    lab.go()
    run = lab.detach()
    assert "no such layer" in lab.until(run, state="failed")["message"]
    one_error(lab.ask("attach", run), 6, message="no such layer", remedy="the end of the host's log")
    assert "no such layer" in lab.tool("runs", "--host", "ascend01").out


def test_an_orphan_is_found_and_removed(lab: Lab, tmp_path: Path, assert_clean: Clean) -> None:
    run = lab.detach()
    lab.until(run, stage="load")
    pid = json.loads((lab.host.workdir / "runs" / run / "pid.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    assert gone(lambda: leases(tmp_path)), "the kernel ends the worker of a killed supervisor"
    assert lab.runs()[run]["state"] == "orphaned"
    assert lab.ask("clean", run).document["removed"] == [run]
    assert_clean(lab.host)


@pytest.mark.parametrize("command", ["attach", "stop", "clean"])
def test_an_unknown_run_is_one_clear_error(lab: Lab, command: str) -> None:
    lab.go()
    run = lab.detach()
    one_error(lab.ask(command, "20200101_000000_000000"), 2, message="no run '2020", remedy=run)
    lab.until(run, state="finished")


def test_no_device_is_told_when_detaching_too(host: Start, tool: Tool) -> None:
    busy = [{"logic": logic, "pid": 4711, "name": "python", "mb": 9000} for logic in range(8)]
    tool.inventory(host(processes=busy))
    one_error(tool.collect("--detach"), 4, message="no NPU is free", remedy="wait")
    one_error(tool.collect("--detach", "--out", "x"), 2, message="--detach brings nothing", remedy="attach")
