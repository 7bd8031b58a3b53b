"""Leases and the ending of processes, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from collect_agent import lease, process
from collect_agent.failure import Failure
from collect_agent.rundir import RunDir
from collect_agent.start import start as start_run
from collect_agent.stop import stop

DEVICES = [{"logic": 3, "label": "NPU 3"}, {"logic": 5, "label": "NPU 5"}]


@pytest.fixture(autouse=True)
def lease_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(lease.DIRECTORY_VARIABLE, str(tmp_path / "leases"))
    return tmp_path / "leases"


def test_two_runs_get_two_devices_and_a_third_gets_none() -> None:
    first, _ = lease.take(DEVICES, "r1")
    second, _ = lease.take(DEVICES, "r2")
    third, holders = lease.take(DEVICES, "r3")
    assert first is not None
    assert second is not None
    assert (first.device["logic"], second.device["logic"]) == (3, 5)
    assert third is None
    assert holders[0].startswith("NPU 3 is leased by run r1 of ")
    os.close(first.descriptor)
    again, _ = lease.take(DEVICES, "r3")
    assert again is not None
    assert again.device["logic"] == 3
    os.close(second.descriptor)
    os.close(again.descriptor)


def test_a_lease_ends_with_the_last_process_that_holds_it() -> None:
    held, _ = lease.take(DEVICES[:1], "r1")
    assert held is not None
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(held.descriptor,))
    os.close(held.descriptor)
    assert lease.take(DEVICES[:1], "r2")[0] is None
    child.communicate(b"\n")
    free, _ = lease.take(DEVICES[:1], "r2")
    assert free is not None
    os.close(free.descriptor)


def test_lease_files_are_for_every_user(lease_directory: Path) -> None:
    held, _ = lease.take(DEVICES[:1], "r1")
    assert held is not None
    os.close(held.descriptor)
    assert lease_directory.stat().st_mode & 0o7777 == 0o1777
    assert (lease_directory / "npu3.lock").stat().st_mode & 0o777 == 0o666


def test_a_lease_follows_no_link(lease_directory: Path, tmp_path: Path) -> None:
    lease_directory.mkdir()
    (tmp_path / "precious").write_text("keep")
    (lease_directory / "npu3.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links|Too many levels"):
        lease.take(DEVICES[:1], "r1")
    assert (tmp_path / "precious").read_text() == "keep"


def start(code: str, run_id: str, **options: Any) -> subprocess.Popen[bytes]:
    environment = dict(os.environ, **{process.RUN_VARIABLE: run_id})
    child = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, **options)
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    return child


def test_a_run_is_found_in_whatever_session_it_moved_to() -> None:
    code = "import os, time; os.setsid(); print('up', flush=True); time.sleep(60)"
    with start(code, "moved") as child:
        assert process.of_run("moved") == [child.pid]
        assert process.of_run("another") == []
        assert process.end("moved", grace_s=5.0) == []
        assert child.wait() == -signal.SIGTERM


def test_what_ignores_sigterm_is_killed() -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    with start(code, "deaf") as child:
        assert process.end("deaf", grace_s=0.2) == []
        assert child.wait() == -signal.SIGKILL


def test_start_time_tells_a_process_from_its_pid_used_again() -> None:
    mine = process.start_time(os.getpid())
    assert mine is not None
    with start("print('up', flush=True); input()", "x", stdin=subprocess.PIPE) as child:
        theirs = process.start_time(child.pid)
        assert theirs is not None
        assert int(theirs) >= int(mine)
        child.kill()
        child.wait()
        assert process.start_time(child.pid) is None


def test_a_run_that_was_stopped_before_it_started_does_not_start(tmp_path: Path) -> None:
    assert stop(RunDir(str(tmp_path / "runs" / "early"))) == []
    with pytest.raises(Failure, match="stopped before it started"):
        start_run({"workdir": str(tmp_path), "run_id": "early", "files": {}})


def test_a_run_directory_that_cannot_be_made_is_one_clear_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Failure, match="cannot make the run directory .*: Not a directory") as caught:
        start_run({"workdir": str(tmp_path / "file"), "run_id": "r", "files": {}})
    assert caught.value.kind == "StorageError"


def test_a_worker_dies_with_its_supervisor() -> None:
    code = (
        "import os, subprocess, sys; from collect_agent import process\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " preexec_fn=process.die_with_parent)\n"
        "print(child.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    parent = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, check=False)
    orphan = int(parent.stdout)
    until = time.monotonic() + 5
    while process.start_time(orphan) is not None and time.monotonic() < until:
        time.sleep(0.01)
    assert process.start_time(orphan) is None
