"""What the model's program is given, and what is believed of what it reports."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect_agent import events
from collect_agent.npu import lease
from collect_agent.run import process, program
from collect_agent.run.rundir import RunDir

RUN_ID = "r" + uuid.uuid4().hex  # processes are found by it on the whole machine

STEP = {"stage": "profile", "window": "both", "kind": "decode", "step": 1, "of": 5, "seconds": 0.1, "recompiles": 0}


def said(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def test_a_report_is_an_event() -> None:
    assert program.report(said(**STEP)) == STEP
    assert program.report(said(stage="import")) == {"stage": "import"}
    versions = {"torch": "2.13.0", "torch_npu": "2.13.0"}
    assert program.report(said(stage="import", versions=versions)) == {"stage": "import", "versions": versions}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"garbage",
        b"\xff\xfe",
        b"[" * 100000,
        b"3",
        b'["stage"]',
        said(stage="end", status="done", files=[]),
        said(stage="lease", devices=[]),
        said(stage=["load"]),
        said(stage="error", kind="RunFailed"),
        said(**dict(STEP, seconds="long")),
        said(stage="warmup", seconds=0.1),
        said(stage="import", device={"count": "many"}),
        said(stage="import", versions={}),
    ],
)
def test_what_is_no_report_is_ignored(line: bytes) -> None:
    assert program.report(line) is None


def test_a_report_cannot_say_what_is_not_its_to_say() -> None:
    """Neither the number and time that the journal gives, nor a version that is ours."""
    assert program.report(said(**STEP, seq=99, time=0, self=1)) == STEP
    versions = {"torch": "1", "torch_npu": "2", "python": "9"}
    event = program.report(said(stage="import", versions=versions))
    assert event is not None
    assert set(event["versions"]) == {"torch", "torch_npu"}


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner) | st.dictionaries(st.sampled_from(["stage", "window"]), inner)


@given(st.recursive(st.none() | st.integers() | st.sampled_from(["load", "parse", "profile"]), nested))
def test_no_json_breaks_the_reading(value: Any) -> None:
    event = program.report(json.dumps(value).encode())
    assert event is None or event["stage"] in program.REPORTS


SAY = """
import os, subprocess, sys
fd = int(os.environ["COLLECT_REMOTE_EVENTS"])
say = lambda *lines: os.write(fd, b"\\n".join(lines))
"""
JUNK = (
    SAY
    + """
say(b"\\0junk", b'{"stage": "load"}', b'{"stage": "end"}', b'{"stage": "precheck"}', b'{"stage"')
"""
)
BABBLE = (
    SAY
    + """
say(b'{"stage": "load"}', b'')
subprocess.Popen(["yes"], stdout=fd)
"""
)


def begin(tmp_path: Path, code: str) -> program.Program:
    run = RunDir(str(tmp_path / "runs" / RUN_ID))
    plan = {
        "files": {"code.py": code},
        "argv": ["{python}", "{run}/code.py"],
        "env": {},
        "expected": {"ranks": [0]},
        "node": None,
    }
    run.create(plan)
    return program.start(run, plan, lease.Leases([{"logic": 0}], []), port=29500)


PARSES = (
    SAY
    + """
import time
say(b'{"stage": "parse", "window": "both"}', b'')
time.sleep(1)
say(b'{"stage": "load"}', b'')
time.sleep(0.6)
"""
)


def test_a_parser_at_work_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "TICK_S", 0.05)
    monkeypatch.setattr(program, "BEAT_S", 0.3)
    running = begin(tmp_path, PARSES)
    told = list(program.reports(running))
    running.popen.wait()
    running.pipe.close()
    assert told[0] == {"stage": "parse", "window": "both"}
    assert told[-1] == {"stage": "load"}, "nothing is told of other stages"
    assert len(told) >= 4
    assert all(event["window"] == "both" and "seconds" in event for event in told[1:-1])


def test_reports_come_through_garbage(tmp_path: Path) -> None:
    running = begin(tmp_path, JUNK)
    assert [event["stage"] for event in program.reports(running)] == ["load", "precheck"]
    assert running.popen.wait() == 0
    running.pipe.close()


def test_a_child_that_never_stops_writing_does_not_hold_the_run(tmp_path: Path) -> None:
    running = begin(tmp_path, BABBLE)
    begun = time.monotonic()
    assert [event["stage"] for event in program.reports(running)] == ["load"]
    assert time.monotonic() - begun < 10
    running.popen.wait()
    running.pipe.close()  # and the child dies of its broken pipe
    assert process.end(RUN_ID, grace_s=1.0) == []


def test_the_inventorys_env_cannot_undo_what_the_run_stands_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASCEND_WORK_PATH", "/elsewhere")
    run = RunDir(str(tmp_path / "runs" / RUN_ID))
    wished = {
        process.RUN_VARIABLE: "another",
        events.PIPE_VARIABLE: "1",
        "ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3",
        "PROFILING_MODE": "true",
        "MINE": "kept",
    }
    held = lease.Leases([{"logic": 10}, {"logic": 9}], [])
    given_to = program.environment(run, {"env": wished}, held)
    assert given_to[process.RUN_VARIABLE] == RUN_ID
    assert given_to["ASCEND_RT_VISIBLE_DEVICES"] == "9,10"
    assert given_to["MINE"] == "kept"
    assert given_to["ASCEND_WORK_PATH"] == run.work
    assert not {events.PIPE_VARIABLE, "PROFILING_MODE"} & set(given_to)
