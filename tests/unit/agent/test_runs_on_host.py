"""Runs as their host keeps them: started once however often it is asked for, listed, removed."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

import collect_agent
from collect_agent import events
from collect_agent.failure import Failure
from collect_agent.run import follow, listing, process
from collect_agent.run.clean import clean
from collect_agent.run.rundir import RunDir
from collect_agent.run.send import send
from collect_agent.run.stop import stop

LAUNCHER = """
import sys
sys.path.insert(0, {!r})
from collect_agent.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
OLD, DONE, FAILED, GOING = (f"20261129_10000{n}_abcdef" for n in range(4))
WISH = {"devices": [], "count": 1, "max_used": None, "allow_health": []}


class Agent:
    """The agent as a program, with a work directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.workdir = directory / "work"
        self.id = "r" + uuid.uuid4().hex  # processes are found by it on the whole machine
        self._program = directory / "agent.py"
        self._program.write_text(LAUNCHER.format(str(Path(collect_agent.__file__).parents[1])))

    def plan(self, wait_s: float = 0.0) -> dict[str, Any]:
        """One that finds no device, as there is no npu-smi, after `wait_s` seconds."""
        return {
            "workdir": str(self.workdir),
            "run_id": self.id,
            "files": {},
            "groups": [],
            "refused": [],
            "wish": WISH,
            "leased": True,
            "node": None,
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

    @property
    def run(self) -> RunDir:
        return RunDir(str(self.workdir / "runs" / self.id))


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def told(child: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    with child:
        assert child.stdout is not None
        out = child.stdout.read()  # its stdin stays open meanwhile: who closes it does not read any more
    return [json.loads(line[len(events.MARK) :]) for line in out.decode().splitlines()]


def test_a_run_that_is_asked_for_again_and_again_is_started_once(agent: Agent) -> None:
    plan = agent.plan(wait_s=1.0)
    children = [agent.start(plan) for _ in range(4)]
    ends = [[event for event in told(child) if event["stage"] == "end"] for child in children]
    assert [len(end) for end in ends] == [1, 1, 1, 1]
    assert len({end["seq"] for (end,) in ends}) == 1, "all have followed the same run"
    assert sorted(os.listdir(agent.workdir / "runs")) == [agent.id], "nothing of the others is left"


def test_a_follower_ends_with_who_reads_it_and_the_run_goes_on(agent: Agent) -> None:
    child = agent.start(agent.plan(wait_s=30.0))
    assert child.stdout is not None
    assert child.stdin is not None
    child.stdout.readline()
    child.stdin.close()
    told(child)
    assert child.returncode == 1
    assert listing.describe(agent.run)["state"] == "running"
    assert stop(agent.run) == []


def test_a_run_whose_id_was_stopped_never_starts(agent: Agent) -> None:
    assert stop(agent.run) == []
    (event,) = told(agent.start(agent.plan()))
    assert event["error"]["message"] == f"run {agent.id} was stopped before it started"
    assert listing.describe(agent.run)["state"] == "stopped"


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
    dead = dict(process.identity(os.getpid()), start_time="1")
    Path(a_run(tmp_path, OLD).pid).write_text(json.dumps(dead))
    a_run(tmp_path, DONE, {"status": "done", "files": []})
    a_run(tmp_path, FAILED, {"status": "failed", "error": {"message": "no memory"}})
    a_run(tmp_path, GOING)
    found = listing.runs(str(tmp_path))
    assert [(run["run"], run["state"]) for run in found] == [
        (OLD, "orphaned"),
        (DONE, "finished"),
        (FAILED, "failed"),
        (GOING, "running"),
    ]
    assert {run["stage"] for run in found} == {"load"}
    assert [run["message"] for run in found] == ["", "", "no memory", ""]
    assert (found[3]["model"], found[3]["orphan_s"]) == ("m", 600)
    assert all(run["bytes"] > 0 for run in found)


@pytest.mark.parametrize(
    ("names", "results", "left"),
    [
        ([], False, [DONE, GOING]),
        ([], True, [GOING]),
        ([DONE], False, [FAILED, GOING]),
        ([GOING], True, [DONE, FAILED, GOING]),
    ],
    ids=["all", "with-results", "one", "running"],
)
def test_what_has_ended_is_removed(tmp_path: Path, names: list[str], results: bool, left: list[str]) -> None:
    a_run(tmp_path, GOING)
    a_run(tmp_path, DONE, {"status": "done", "files": []})
    a_run(tmp_path, FAILED, {"status": "failed", "error": {"message": "no memory"}})
    done = clean(str(tmp_path), names, results, "mine.pyz")
    assert sorted(os.listdir(tmp_path / "runs")) == left
    assert set(done["removed"]) == {DONE, FAILED, GOING} - set(left)
    assert (done["freed"] > 0) is bool(done["removed"])


def test_old_agents_go_when_nothing_needs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agent").mkdir()
    mine, older = (f"collect_agent-{digit * 16}.pyz" for digit in "12")
    for name in (mine, older):
        (tmp_path / "agent" / name).write_text("x")
    clean(str(tmp_path), [], False, mine)
    assert len(os.listdir(tmp_path / "agent")) == 2, "somebody may be putting it there"
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 4000)
    a_run(tmp_path, GOING)
    clean(str(tmp_path), [], False, mine)
    assert len(os.listdir(tmp_path / "agent")) == 2, "a run may use it"
    clean(str(tmp_path), [], True, mine)
    os.unlink(tmp_path / "runs" / GOING / "pid.json")
    clean(str(tmp_path), [], False, mine)
    assert os.listdir(tmp_path / "agent") == [mine]


def test_what_is_not_ours_is_neither_listed_nor_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 4000)
    runs, agent, home = tmp_path / "runs", tmp_path / "agent", tmp_path / "home"
    for folder in (runs / "Nov29_tensorboard", runs / ".hidden", runs / OLD, agent / "mine", home):
        folder.mkdir(parents=True)
        (folder / "precious").write_text("x")
    (runs / "notes.txt").write_text("x")
    (runs / DONE).symlink_to(home)
    (agent / "notes.txt").write_text("x")
    everything = sorted(tmp_path.rglob("*"))
    assert listing.runs(str(tmp_path)) == []
    assert clean(str(tmp_path), [], True, "mine.pyz") == {"removed": [], "kept": {}, "freed": 0}
    assert sorted(tmp_path.rglob("*")) == everything


def test_one_that_is_damaged_hides_no_other(tmp_path: Path) -> None:
    for name in (OLD, DONE, FAILED):
        a_run(tmp_path, name, {"status": "done", "files": []})
    with open(tmp_path / "runs" / OLD / "events.jsonl", "a") as file:
        file.write("\0\0\0\n[]\n")
    (tmp_path / "runs" / DONE / "plan.json").write_text('{"host": ')
    (tmp_path / "runs" / FAILED / "plan.json").write_text("[]")
    assert [run["state"] for run in listing.runs(str(tmp_path))] == ["finished", "unknown", "unknown"]
    assert set(clean(str(tmp_path), [], True, "x")["kept"]) == {DONE, FAILED}


def test_a_run_that_ends_while_it_is_looked_at_is_not_taken_for_an_orphan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path, GOING)
    real = process.recorded

    def ends_meanwhile(path: str) -> int | None:
        pid = real(path)
        journal = events.Journal(run.events)
        journal.write(stage="end", status="done", files=[])
        journal.close()
        os.unlink(run.pid)
        return pid

    monkeypatch.setattr(process, "recorded", ends_meanwhile)
    assert listing.describe(run)["state"] == "finished"


@pytest.mark.parametrize(
    ("place", "silent_s", "state"),
    [
        (["other", "boot", "pid:[1]"], 1000, "running"),
        (["other", "boot", "pid:[1]"], 4000, "orphaned"),
        (["other", None, "pid:[1]"], 10, "running"),
        (["other", None, "pid:[1]"], 60, "orphaned"),
        ([None, "earlier boot", "pid:[1]"], 10, "orphaned"),
    ],
    ids=["host", "host-silent", "container", "container-silent", "rebooted"],
)
def test_a_run_of_another_place_is_judged_by_its_signs_of_life(
    tmp_path: Path, place: list[str | None], silent_s: int, state: str
) -> None:
    """A home on the network, or a directory that a host and its container share."""
    run = a_run(tmp_path, GOING)
    here = process.identity(os.getpid())
    known = [theirs or here["place"][at] for at, theirs in enumerate(place)]
    Path(run.pid).write_text(json.dumps(dict(here, place=known)))
    os.utime(run.pid, (0, time.time() - silent_s))
    assert listing.describe(run)["state"] == state


def test_a_run_of_another_place_is_asked_to_stop(tmp_path: Path) -> None:
    run = a_run(tmp_path, GOING)
    here = process.identity(os.getpid())
    Path(run.pid).write_text(json.dumps(dict(here, place=["other", "boot", "pid:[1]"])))
    with pytest.raises(Failure, match="goes on, on another host"):
        stop(run, grace_s=0.1)
    assert os.path.exists(run.stop)


def test_a_stop_that_is_asked_for_by_a_file_is_obeyed(agent: Agent) -> None:
    child = agent.start(agent.plan(wait_s=60.0))
    assert child.stdout is not None
    child.stdout.readline()
    Path(agent.run.stop).touch()
    assert told(child)[-1]["error"]["message"] == "the run was stopped on request"


def test_a_full_disk_does_not_keep_a_run_from_being_stopped(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    child = agent.start(agent.plan(wait_s=60.0))
    assert child.stdout is not None
    child.stdout.readline()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "makedirs", full)
    monkeypatch.setattr(os, "mkdir", full)
    assert stop(agent.run, grace_s=60.0) == []
    assert told(child)[-1]["error"]["message"] == "the run was stopped on request"


def test_who_follows_sees_the_end_of_a_run_that_is_fetched_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = a_run(tmp_path, GOING)

    def fetched(_: float) -> bool:
        journal = events.Journal(run.events)
        journal.write(stage="end", status="done", files=[])
        journal.close()
        monkeypatch.setattr("sys.stdin", io.StringIO("ok\n"))
        assert send(run) == 0
        assert not os.path.exists(run.path)
        return False

    monkeypatch.setattr(follow, "_reader_has_gone", fetched)
    assert follow.follow(run) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1][len(events.MARK) :])
    assert (last["stage"], last["status"]) == ("end", "done")


def test_who_comes_too_late_for_a_result_is_told_so(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert send(RunDir(str(tmp_path / DONE))) == 1
    assert b"somebody else has fetched its result" in capsysbinary.readouterr().out
