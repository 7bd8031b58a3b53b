"""Runs as their host keeps them: started once however often it is asked for, listed, removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import collect_agent
from collect_agent import events, listing, process
from collect_agent.clean import clean
from collect_agent.rundir import RunDir
from collect_agent.stop import stop

LAUNCHER = """
import sys
sys.path.insert(0, {!r})
from collect_agent.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
WISH = {"devices": [], "count": 1, "max_used": None, "allow_health": []}


class Agent:
    """The agent as a program, with a work directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.workdir = directory / "work"
        self._program = directory / "agent.py"
        self._program.write_text(LAUNCHER.format(str(Path(collect_agent.__file__).parents[1])))

    def plan(self, run_id: str, wait_s: float = 0.0) -> dict[str, Any]:
        """One that finds no device, as there is no npu-smi, after `wait_s` seconds."""
        return {
            "workdir": str(self.workdir),
            "run_id": run_id,
            "files": {},
            "groups": [],
            "refused": [],
            "wish": WISH,
            "visible_devices": None,
            "container": None,
            "wait_s": wait_s,
            "deadline_s": 60,
            "orphan_s": 60,
            "host": "h",
            "model": "m",
            "expected": {},
        }

    def start(self, plan: dict[str, Any]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/bin/bash", "-c", 'exec "$0" "$1" start 3<<<"$PLAN"', sys.executable, str(self._program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": "/nowhere", "PLAN": json.dumps(plan)},
        )

    def run(self, run_id: str) -> RunDir:
        return RunDir(str(self.workdir / "runs" / run_id))


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def told(child: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    with child:
        assert child.stdout is not None
        out = child.stdout.read()  # its stdin stays open meanwhile: who closes it does not read any more
    return [json.loads(line[len(events.MARK) :]) for line in out.decode().splitlines()]


def test_a_run_that_is_asked_for_again_and_again_is_started_once(agent: Agent) -> None:
    plan = agent.plan("r1", wait_s=1.0)
    children = [agent.start(plan) for _ in range(4)]
    ends = [[event for event in told(child) if event["stage"] == "end"] for child in children]
    assert [len(end) for end in ends] == [1, 1, 1, 1]
    assert len({end["seq"] for (end,) in ends}) == 1, "all have followed the same run"
    assert sorted(os.listdir(agent.workdir / "runs")) == ["r1"], "nothing of the others is left"


def test_a_follower_ends_with_who_reads_it_and_the_run_goes_on(agent: Agent) -> None:
    child = agent.start(agent.plan("r1", wait_s=30.0))
    assert child.stdout is not None
    assert child.stdin is not None
    child.stdout.readline()
    child.stdin.close()
    told(child)
    assert child.returncode == 1
    assert listing.describe(agent.run("r1"))["state"] == "running"
    assert stop(agent.run("r1")) == []


def test_a_run_whose_id_was_stopped_never_starts(agent: Agent) -> None:
    assert stop(agent.run("r1")) == []
    (event,) = told(agent.start(agent.plan("r1")))
    assert event["error"]["message"] == "run r1 was stopped before it started"
    assert listing.describe(agent.run("r1"))["state"] == "stopped"


def a_run(workdir: Path, name: str, end: dict[str, Any] | None = None) -> RunDir:
    run = RunDir(str(workdir / "runs" / name))
    run.create({"files": {}, "host": "h", "model": "m", "expected": {}, "orphan_s": 600})
    Path(run.pid).write_text(json.dumps(process.identity(os.getpid())) if end is None else "{}")
    journal = events.Journal(run.events)
    journal.write(stage="load")
    if end is not None:
        journal.write(stage="end", **end)
    journal.close()
    return run


def test_every_state_is_told(tmp_path: Path) -> None:
    a_run(tmp_path, "1")
    a_run(tmp_path, "2", {"status": "done", "files": []})
    a_run(tmp_path, "3", {"status": "failed", "error": {"message": "no memory"}})
    Path(a_run(tmp_path, "4").pid).write_text(json.dumps({"pid": os.getpid(), "start_time": "1"}))
    found = listing.runs(str(tmp_path))
    assert [(run["run"], run["state"]) for run in found] == [
        ("1", "running"),
        ("2", "finished"),
        ("3", "failed"),
        ("4", "orphaned"),
    ]
    assert {run["stage"] for run in found} == {"load"}
    assert [run["message"] for run in found] == ["", "", "no memory", ""]
    assert (found[0]["model"], found[0]["orphan_s"]) == ("m", 600)
    assert all(run["bytes"] > 0 for run in found)


@pytest.mark.parametrize(
    ("names", "results", "left"),
    [
        ([], False, ["done", "going"]),
        ([], True, ["going"]),
        (["done"], False, ["failed", "going"]),
        (["going"], True, ["done", "failed", "going"]),
    ],
    ids=["all", "with-results", "one", "running"],
)
def test_what_has_ended_is_removed(tmp_path: Path, names: list[str], results: bool, left: list[str]) -> None:
    a_run(tmp_path, "going")
    a_run(tmp_path, "done", {"status": "done", "files": []})
    a_run(tmp_path, "failed", {"status": "failed", "error": {"message": "no memory"}})
    done = clean(str(tmp_path), names, results, "mine.pyz")
    assert sorted(os.listdir(tmp_path / "runs")) == left
    assert set(done["removed"]) == {"done", "failed", "going"} - set(left)
    assert (done["freed"] > 0) is bool(done["removed"])


def test_old_agents_go_when_nothing_needs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agent").mkdir()
    for name in ("mine.pyz", "older.pyz"):
        (tmp_path / "agent" / name).write_text("x")
    clean(str(tmp_path), [], False, "mine.pyz")
    assert len(os.listdir(tmp_path / "agent")) == 2, "somebody may be putting it there"
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 4000)
    a_run(tmp_path, "going")
    clean(str(tmp_path), [], False, "mine.pyz")
    assert len(os.listdir(tmp_path / "agent")) == 2, "a run may use it"
    clean(str(tmp_path), [], True, "mine.pyz")
    os.unlink(tmp_path / "runs" / "going" / "pid.json")
    clean(str(tmp_path), [], False, "mine.pyz")
    assert os.listdir(tmp_path / "agent") == ["mine.pyz"]
