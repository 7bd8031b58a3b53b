"""Journal, manifest arithmetic, following and sending: the agent's own files, without a host."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect_agent import events
from collect_agent.failure import Failure
from collect_agent.output import manifest
from collect_agent.run import follow, process, remains, send, supervise, together
from collect_agent.run.rundir import RunDir

PLAN: dict[str, Any] = {"files": {"request.json": "{}"}}


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = RunDir(str(tmp_path / "runs" / "r1"))
    run.create(PLAN)
    return run


def test_a_rank_that_recompiles_spoils_the_window() -> None:
    def told(recompiles: int) -> list[dict[str, Any]]:
        event = {"stage": "profile", "window": "both", "kind": "decode", "seconds": 0.1, "recompiles": recompiles}
        return [event]

    found = manifest.phases(told(0), {1: told(0), 2: told(2)})
    assert found["both"]["recompiles"] == 2
    assert {rank: steps["recompiles"] for rank, steps in found["both"]["ranks"].items()} == {"1": 0, "2": 2}


def test_what_nobody_has_counted_is_not_none() -> None:
    def told(recompiles: int | None) -> list[dict[str, Any]]:
        return [{"stage": "profile", "window": "train", "kind": "train", "seconds": 0.1, "recompiles": recompiles}]

    assert manifest.phases(told(None))["train"]["recompiles"] is None
    assert manifest.phases(told(1), {1: told(None)})["train"]["recompiles"] is None


def test_a_recording_that_was_thrown_away_is_none_of_its_steps() -> None:
    steps = [
        {"stage": "profile", "window": "decode", "kind": "decode", "step": number, "seconds": second, "recompiles": 1}
        for number, second in ((1, 0.5), (2, 0.5), (1, 0.1), (2, 0.2))
    ]
    window = manifest.phases(steps)["decode"]
    assert (window["step_seconds"], window["step_kinds"], window["recompiles"]) == ([0.1, 0.2], ["decode"] * 2, 2)


def test_a_journal_numbers_its_events(run: RunDir) -> None:
    journal = events.Journal(run.events)
    journal.write(stage="lease")
    journal.write(stage="end", status="done")
    journal.close()
    lines = [json.loads(line) for line in events.complete_lines(run.events, 0)]
    assert [(line["seq"], line["stage"]) for line in lines] == [(1, "created"), (2, "lease"), (3, "end")]


@given(st.lists(st.text(alphabet="abc", max_size=5), max_size=5), st.text(alphabet="abc", min_size=1, max_size=5))
def test_an_unfinished_line_waits(tmp_path_factory: pytest.TempPathFactory, whole: list[str], rest: str) -> None:
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_text("".join(line + "\n" for line in whole) + rest)
    assert list(events.complete_lines(str(path), 0)) == [line + "\n" for line in whole]


def test_stage_durations_add_up_to_the_whole() -> None:
    told = [
        {"time": 10.0, "stage": "load"},
        {"time": 14.5, "stage": "warmup", "step": 1},
        {"time": 15.0, "stage": "warmup", "step": 2},
        {"time": 17.0, "stage": "profile"},
        {"time": 18.0, "stage": "profile"},
    ]
    stages = manifest.stages(told)
    assert [(s["stage"], s["seconds"]) for s in stages] == [("load", 4.5), ("warmup", 2.5), ("profile", 1.0)]
    assert sum(s["seconds"] for s in stages) == told[-1]["time"] - told[0]["time"]


def test_phases_keep_warm_up_and_window_apart() -> None:
    def step(stage: str, kind: str, seconds: float, **more: Any) -> dict[str, Any]:
        return {"stage": stage, "window": "both", "kind": kind, "seconds": seconds, **more}

    told = [
        step("warmup", "prefill", 9.0),
        step("warmup", "decode", 3.0),
        step("profile", "prefill", 1.0, recompiles=0),
        step("profile", "decode", 0.1, recompiles=1),
        {"stage": "profile"},
    ]
    assert manifest.phases(told) == {
        "both": {
            "warmup_seconds": [9.0, 3.0],
            "warmup_kinds": ["prefill", "decode"],
            "step_seconds": [1.0, 0.1],
            "step_kinds": ["prefill", "decode"],
            "recompiles": 1,
        }
    }


def finished(run: RunDir, content: bytes, log: bytes) -> list[dict[str, Any]]:
    files = [{"name": "profile_l1.tar.gz", "size": len(content)}, {"name": "run.log", "size": len(log)}]
    Path(run.archive).write_bytes(content)
    Path(run.log).write_bytes(log)
    journal = events.Journal(run.events)
    journal.write(stage="end", status="done", files=files)
    journal.close()
    return files


def announced(run: RunDir, *more: dict[str, Any]) -> None:
    journal = events.Journal(run.events)
    for event in ({"stage": "check", "files": [{"name": "profile_l1.tar.gz", "size": 7}]}, *more):
        journal.write(**event)
    journal.close()


def sent(run: RunDir, monkeypatch: pytest.MonkeyPatch, offset: int, answer: str) -> bytes:
    out = io.BytesIO()
    monkeypatch.setattr("sys.stdout", types.SimpleNamespace(buffer=out))
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    assert send.send(run, offset) == 0
    header, _, body = out.getvalue().partition(b"\n")
    assert header.startswith(events.MARK.encode())
    return body


@pytest.mark.parametrize("offset", [0, 1, 6, 7, 9, 11])
def test_sending_goes_on_from_any_byte(run: RunDir, monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    finished(run, b"archive", b"log!")
    assert sent(run, monkeypatch, offset, "") == b"archivelog!"[offset:]


@pytest.mark.parametrize("offset", [0, 1, 6, 7, 9, 10])
def test_pouring_is_the_rest_of_one_file_and_nothing_else(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    finished(run, b"archive", b"log!")
    rest = b"archive"[offset:] or b"archivelog!"[offset:]
    assert poured(run, monkeypatch, offset, "go\n") == (0, rest)
    assert poured(run, monkeypatch, offset, "") == (1, b""), "the reader has gone"


@pytest.mark.parametrize("offset", [11, 99])
def test_where_there_is_no_more_nothing_is_poured(run: RunDir, monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    finished(run, b"archive", b"log!")
    assert poured(run, monkeypatch, offset, "go\n") == (1, b"")


def test_of_a_run_that_ended_badly_nothing_is_poured(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(run.archive).write_bytes(b"archive")
    announced(run, {"stage": "end", "status": "failed", "error": {"message": "the disk is not to be trusted"}})
    assert poured(run, monkeypatch, 0, "go\n") == (1, b"")


def poured(run: RunDir, monkeypatch: pytest.MonkeyPatch, offset: int, said: str) -> tuple[int, bytes]:
    out = io.BytesIO()
    monkeypatch.setattr("sys.stdout", types.SimpleNamespace(buffer=out))
    monkeypatch.setattr("sys.stdin", io.StringIO(said))
    return send.pour(run, offset), out.getvalue()


def test_the_archive_is_sent_as_soon_as_it_is_announced_and_the_log_when_the_run_has_ended(
    run: RunDir, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(run.pid).write_text(json.dumps(process.identity(os.getpid())))
    Path(run.archive).write_bytes(b"archive")
    announced(run)

    def ends(_: float) -> bool:
        finished(run, b"archive", b"log!")
        return False

    monkeypatch.setattr(follow, "_reader_has_gone", ends)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert send.send(run, 3) == 0
    out = capfdbinary.readouterr().out
    assert out.count(b'"stage":"send"') == 2
    first, second = out.split(b'"stage":"send"')[1:]
    assert first.partition(b"\n")[2].startswith(b"hive" + events.MARK.encode())
    assert second.partition(b"\n")[2] == b"log!"


def test_of_a_run_that_ended_badly_nothing_is_sent(run: RunDir, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Path(run.archive).write_bytes(b"archive")
    announced(run, {"stage": "end", "status": "failed", "error": {"message": "the disk is not to be trusted"}})
    assert send.send(run, 0) == 1
    out = capfdbinary.readouterr().out
    assert b"not to be trusted" in out
    assert b"archive" not in out.replace(b"profile_l1.tar.gz", b"")


def test_only_ok_removes_the_run(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(run, b"archive", b"log!")
    sent(run, monkeypatch, 0, "")
    assert os.path.exists(run.archive)
    sent(run, monkeypatch, 0, "ok\n")
    assert not os.path.exists(run.path)


def test_following_starts_behind_what_was_seen(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    Path(run.pid).write_text(json.dumps(process.identity(os.getpid())))
    journal = events.Journal(run.events)
    for stage in ("lease", "load", "end"):
        journal.write(stage=stage)
    journal.close()
    assert follow.follow(run, after=2) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line[len(events.MARK) :])["stage"] for line in lines] == ["load", "end"]


@pytest.mark.parametrize("what", ["directory", "journal"])
def test_a_removed_run_is_told_as_the_end(run: RunDir, capsys: pytest.CaptureFixture[str], what: str) -> None:
    Path(run.pid).write_text(json.dumps(process.identity(os.getpid())))
    shutil.rmtree(run.path) if what == "directory" else os.unlink(run.events)
    assert follow.follow(run) == 1
    last = json.loads(capsys.readouterr().out.splitlines()[-1][len(events.MARK) :])
    assert (last["stage"], last["error"]["kind"]) == ("end", "RunFailed")
    assert re.search("directory of the run was removed|there is no run", last["error"]["message"])


def test_a_dead_supervisors_run_is_ended(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    Path(run.pid).write_text(json.dumps({"pid": os.getpid(), "start_time": "1"}))
    environment = dict(os.environ, **{process.RUN_VARIABLE: run.id})
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=environment) as child:
        assert follow.follow(run) == 1
        assert child.wait(timeout=5) < 0
    assert "the supervisor of the run died" in capsys.readouterr().out


def test_silence_is_measured_by_our_own_clock(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    os.utime(run.followed, (0, 0))
    silence = supervise.Silence(run.followed)
    now += 7
    assert silence.seconds == 7
    os.utime(run.followed, (4e9, 4e9))  # followed, by a clock that is wrong
    assert silence.seconds == 0
    now += 5
    os.unlink(run.followed)  # whoever follows makes it again
    assert silence.seconds == 0
    now += 5
    assert silence.seconds == 5


def test_a_run_without_data_keeps_its_log_only(run: RunDir) -> None:
    for path in (run.log, run.events, run.pid, os.path.join(run.work, "model.bin")):
        Path(path).write_text("x")
    os.mkdir(os.path.join(run.profile, "both"))
    remains.trim(run)
    assert sorted(os.listdir(run.path)) == ["events.jsonl", "pid.json", "plan.json", "run.log"]


def test_a_run_with_data_keeps_everything(run: RunDir) -> None:
    os.mkdir(os.path.join(run.profile, "both"))
    Path(run.profile, "both", "raw").write_text("x")
    before = sorted(os.listdir(run.path))
    remains.trim(run)
    assert sorted(os.listdir(run.path)) == before


def test_a_removed_log_is_written_again(run: RunDir) -> None:
    code = (
        "import os, sys; from collect_agent.run import runlog; from collect_agent.run.rundir import RunDir\n"
        "print('before', flush=True); os.unlink(sys.argv[1])\n"
        "runlog.restore(RunDir(os.path.dirname(sys.argv[1])))\n"
        "print('after', flush=True); os.write(2, b'and errors\\n')"
    )
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    with open(run.log, "ab") as log:
        subprocess.run([sys.executable, "-c", code, run.log], stdout=log, stderr=log, env=environment, check=True)
    assert Path(run.log).read_text().split("\n") == ["before", "after", "and errors", ""]


def test_a_dead_supervisor_is_told_as_the_end(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    Path(run.pid).write_text(json.dumps({"pid": os.getpid(), "start_time": "1"}))
    assert follow.follow(run) == 1
    last = json.loads(capsys.readouterr().out.splitlines()[-1][len(events.MARK) :])
    assert last["stage"] == "end"
    assert "the supervisor of the run died" in last["error"]["message"]


def test_a_meeting_that_cannot_be_written_down(run: RunDir) -> None:
    shutil.rmtree(run.path)
    Path(run.path).write_text("")
    with pytest.raises(Failure, match=f"cannot write on the host: Not a directory .{run.path}") as caught:
        together.meet(run, 1, 0)
    assert caught.value.kind == "StorageError"


def test_nothing_comes_between_an_import() -> None:
    heard: list[str] = []
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append("tick"))
    try:
        with supervise.undisturbed():
            signal.raise_signal(signal.SIGALRM)  # to this thread: pytest may have others
            heard.append("imported")
        assert heard == ["imported", "tick"]
    finally:
        signal.signal(signal.SIGALRM, before)
