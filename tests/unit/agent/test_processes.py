"""Leases and the ending of processes, with real processes."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from collect_agent.failure import Failure
from collect_agent.npu import lease
from collect_agent.run import process
from collect_agent.run.rundir import RunDir
from collect_agent.run.start import start as start_run
from collect_agent.run.stop import stop

DEVICES = [{"label": f"NPU {npu}", "bus": f"0000:C{npu}:00.0", "npu": npu, "chip": 0} for npu in (3, 5)]
FIRST, SECOND = (f"collect_remote_0000_C3_00.0.0.{slot}.lock" for slot in (0, 1))
DAY = 24 * 3600.0


@pytest.fixture(autouse=True)
def lease_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(lease.DIRECTORY_VARIABLE, str(tmp_path / "leases"))
    return tmp_path / "leases"


def lock(path: Path) -> int:
    """Lock a lease file as a stranger would, without signing."""
    path.parent.mkdir(exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def test_a_device_is_leased_once() -> None:
    first = lease.take(DEVICES[:1], "r1", 60)
    with pytest.raises(lease.Taken, match=r"NPU 3 is leased by run r1 of .* \(pid \d+\)"):
        lease.take(DEVICES[:1], "r2", 60)
    second = lease.take(DEVICES[1:], "r2", 60)
    first.release()
    lease.take(DEVICES[:1], "r3", 60).release()
    second.release()


def test_several_devices_are_leased_together_or_not_at_all() -> None:
    one = lease.take(DEVICES[1:], "r1", 60)
    with pytest.raises(lease.Taken, match="NPU 5"):
        lease.take(DEVICES, "r2", 60)
    lease.take(DEVICES[:1], "r3", 60).release()  # the first of the two was given back
    one.release()
    lease.take(DEVICES, "r2", 60).release()


def test_a_lease_ends_with_the_last_process_that_holds_it() -> None:
    held = lease.take(DEVICES[:1], "r1", 60)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=held.descriptors)
    held.release()
    with pytest.raises(lease.Taken):
        lease.take(DEVICES[:1], "r2", 60)
    child.communicate(b"\n")
    lease.take(DEVICES[:1], "r2", 60).release()


def test_lease_files_are_for_every_user(lease_directory: Path) -> None:
    lease.take(DEVICES[:1], "r1", 60).release()
    assert lease_directory.stat().st_mode & 0o7777 == 0o1777
    (path,) = lease_directory.iterdir()
    assert path.stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize("planted", ["link", "directory", "fifo", "unreadable"])
def test_what_is_no_lease_file_is_passed_over(lease_directory: Path, tmp_path: Path, planted: str) -> None:
    """And a link is never followed."""
    lease_directory.mkdir()
    (tmp_path / "precious").write_text("keep")
    path = lease_directory / FIRST
    if planted == "link":
        path.symlink_to(tmp_path / "precious")
    elif planted == "directory":
        path.mkdir()
    elif planted == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(path)
    held = lease.take(DEVICES[:1], "r1", 60)
    assert (lease_directory / SECOND).is_file()
    with pytest.raises(lease.Taken, match="run r1"):
        lease.take(DEVICES[:1], "r2", 60)
    held.release()
    assert (tmp_path / "precious").read_text() == "keep"


def test_chips_that_share_a_bus_are_two_devices() -> None:
    first, second = ({"label": "NPU 0", "bus": "0000:01:00.0", "npu": 0, "chip": chip} for chip in (0, 1))
    one, other = lease.take([first], "r1", 60), lease.take([second], "r2", 60)
    one.release()
    other.release()


def test_host_and_container_lease_the_same_device_under_one_name() -> None:
    """They count its logic id, and on A5 even its NPU id, in different ways."""
    held = lease.take([{**DEVICES[0], "npu": 0, "logic": 0}], "r1", 60)
    with pytest.raises(lease.Taken):
        lease.take([{**DEVICES[0], "npu": 3, "logic": 3}], "r2", 60)
    held.release()


def test_of_two_in_different_slots_one_gives_way(lease_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first slot holds an old note and is locked, not signed yet, while a second run passes it over."""
    lease_directory.mkdir()
    (lease_directory / FIRST).write_text("{}")
    os.utime(lease_directory / FIRST, (0, 0))
    slow = lock(lease_directory / FIRST)
    second = lease.take(DEVICES[:1], "r2", 60)
    os.close(slow)
    with pytest.raises(lease.Taken, match="run r2"):
        lease.take(DEVICES[:1], "r1", 60)
    second.release()


def test_a_lock_that_nobody_signed_blocks_for_seconds_only(lease_directory: Path) -> None:
    path = lease_directory / FIRST
    stranger = lock(path)
    with pytest.raises(lease.Taken, match="another run"):
        lease.take(DEVICES[:1], "r1", 60)
    os.utime(path, (0, time.time() - 60))
    held = lease.take(DEVICES[:1], "r1", 60)
    os.close(stranger)
    with pytest.raises(lease.Taken, match="run r1"):  # the first slot is free again, and the device is not
        lease.take(DEVICES[:1], "r2", 60)
    held.release()


@pytest.mark.parametrize("until", [-1.0, 4 * DAY], ids=["overdue", "claims-for-ever"])
def test_a_lease_counts_until_its_time_and_three_days_at_most(lease_directory: Path, until: float) -> None:
    path = lease_directory / FIRST
    stranger = lock(path)
    os.pwrite(
        stranger, json.dumps({"run": "x", "pid": 1, "user": "y", "until": lease._since_boot() + until}).encode(), 0
    )
    lease.take(DEVICES[:1], "r1", 60).release()
    os.close(stranger)


def test_a_replaced_lease_file_is_noticed(lease_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner may replace it between our open and our lock: what we locked is then nobody's."""
    real = lease._lock

    def replaced_meanwhile(descriptor: int) -> bool:
        (lease_directory / FIRST).unlink()
        (lease_directory / FIRST).write_text("")
        monkeypatch.setattr(lease, "_lock", real)
        return real(descriptor)

    monkeypatch.setattr(lease, "_lock", replaced_meanwhile)
    held = lease.take(DEVICES[:1], "r1", 60)
    with pytest.raises(lease.Taken):
        lease.take(DEVICES[:1], "r2", 60)
    held.release()


@pytest.mark.parametrize("note", [b"[" * 4000, b'{"until": ' + b"9" * 400 + b"}", b"[1]", b"\xff\xfe"])
def test_nonsense_in_a_lease_file_blocks_nobody(lease_directory: Path, note: bytes) -> None:
    stranger = lock(lease_directory / FIRST)
    os.pwrite(stranger, note, 0)
    for seen in (time.time() - 60, time.time() + 10**9):
        os.utime(lease_directory / FIRST, (seen, seen))
        lease.take(DEVICES[:1], "r1", 60).release()
    os.close(stranger)


def test_what_another_user_wrote_is_shown_harmlessly(lease_directory: Path) -> None:
    stranger = lock(lease_directory / FIRST)
    note = {"run": "\x1b[2J" + "x" * 500, "pid": 1, "user": "y", "until": lease._since_boot() + 60}
    os.pwrite(stranger, json.dumps(note).encode(), 0)
    with pytest.raises(lease.Taken) as taken:
        lease.take(DEVICES[:1], "r1", 60)
    assert "\x1b" not in str(taken.value)
    assert len(str(taken.value)) < 200
    os.close(stranger)


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


CLEAN = (  # a child with neither our environment, nor our session, nor a parent that lives on
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', {code!r}], env={{}}, start_new_session=True)\n"
    "print(child.pid, flush=True)\n"
)


def clean_child(code: str = "import time; time.sleep(60)", then: str = "") -> str:
    return "print('up', flush=True); " + CLEAN.format(code=code) + then


def alive(pid: int, patience_s: float = 5.0) -> bool:
    until = time.monotonic() + patience_s
    while process.start_time(pid) is not None:
        if time.monotonic() > until:
            return True
        time.sleep(0.01)
    return False


def test_a_child_with_a_clean_environment_belongs_to_the_run() -> None:
    with start(clean_child(then="time.sleep(60)"), "clean") as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert process.of_run("clean") == sorted((parent.pid, child))
        assert process.end("clean", grace_s=5.0) == []
        assert not alive(child)


def test_a_child_that_outlives_its_parent_is_killed_all_the_same() -> None:
    """Deaf to SIGTERM, and of init when its parent obeyed: it is remembered."""
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    with start(clean_child(deaf, then="time.sleep(60)"), "outlives") as parent:
        assert parent.stdout is not None
        said = {parent.stdout.readline(), parent.stdout.readline()} - {b"deaf\n"}
        assert process.end("outlives", grace_s=0.5) == []
        assert not alive(int(said.pop()))


def test_who_adopts_orphans_finds_them() -> None:
    code = (
        "import os, subprocess, sys; from collect_agent.run import family, process; family.adopt_orphans()\n"
        "made = subprocess.run([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE, env={})\n"
        "orphan = int(made.stdout)\n"
        "print(orphan in process.of_run('adopts'), process.end('adopts', grace_s=5.0), process.start_time(orphan))"
    )
    orphaned = CLEAN.format(code="import os, time; os.close(1); time.sleep(60)")
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), **{process.RUN_VARIABLE: "adopts"})
    done = subprocess.run(
        [sys.executable, "-c", code, orphaned], stdout=subprocess.PIPE, env=environment, check=True, timeout=30
    )
    assert done.stdout.split() == [b"True", b"[]", b"None"]


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
        "import os, subprocess, sys; from collect_agent.run import family\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " preexec_fn=family.die_with_parent)\n"
        "print(child.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    parent = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, check=False)
    orphan = int(parent.stdout)
    until = time.monotonic() + 5
    while process.start_time(orphan) is not None and time.monotonic() < until:
        time.sleep(0.01)
    assert process.start_time(orphan) is None


def test_a_fork_is_its_parent_until_it_is_another_program() -> None:
    """Made by C, as libraries do it: no hook of Python's is called."""
    program = "import ctypes, os, time\nif ctypes.CDLL(None).fork(): print(flush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True) as forking:
        try:
            assert forking.stdout is not None
            forking.stdout.readline()
            (child,) = map(int, Path(f"/proc/{forking.pid}/task/{forking.pid}/children").read_text().split())
            assert process.forked_from(child) == forking.pid
            assert process.forked_from(forking.pid) is None
        finally:
            os.killpg(forking.pid, signal.SIGKILL)
    assert process.forked_from(forking.pid) is None
