"""A run's devices, leased on one side and used on the other: keeper, bridge and loan, as real processes.

Between them, in place of an engine, there is nothing: both sides are on this machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import collect_agent
from collect_agent.boxes import borrow
from collect_agent.failure import Failure
from collect_agent.npu import lease
from collect_agent.run import process
from collect_agent.run.rundir import RunDir
from npu_smi_tables import A2, MAPPING, Die, info, mapping

RUN_ID = "r" + uuid.uuid4().hex  # processes are found by it on the whole machine

LAUNCHER = """
import sys
sys.path.insert(0, {!r})
from collect_agent.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
DEVICE = {"label": "NPU 2", "npu": 2, "chip": 0, "logic": 2, "bus": "0000:C2:00.0", "used_mb": 3300, "name": "910B3"}


class Lab:
    """A run that lasts until `end()`, whose supervisor is this test, and the keeper of its device."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.run = RunDir(str(directory / "runs" / RUN_ID))
        self._supervisor = subprocess.Popen(["sleep", "600"])
        self._agent = directory / "agent.py"
        self._agent.write_text(LAUNCHER.format(str(Path(collect_agent.__file__).parents[1])))
        table = info(A2, [Die(n, bus=f"0000:C{n}:00.0", memory=(3300, 65536)) for n in range(4)])
        (directory / "info").write_text(table)
        (directory / "mapping").write_text(mapping([(str(n), "0", str(n), "X") for n in range(4)], MAPPING))
        (directory / "npu-smi").write_text(
            f'#!/bin/sh\n[ "$2" ] && exec cat {directory}/mapping\ncat {directory}/info\n'
        )
        (directory / "npu-smi").chmod(0o755)
        self._starters: list[subprocess.Popen[str]] = []

    def keep(self, *, running: str = "true", wait_s: float = 0.0) -> None:
        """Start the keeper. `running`: what the engine says of the container."""
        document = {
            "run_id": RUN_ID,
            "wish": {"devices": [], "count": 1, "max_used": None, "allow_health": []},
            "groups": [[DEVICE]],
            "refused": [],
            "visible_devices": None,
            "container": {"name": "box", "logic_ids": [[2, 0]]},
            "wait_s": wait_s,
            "deadline_s": 60,
            "bridge": [sys.executable, str(self._agent), "bridge", self.run.path],
            "state": ["echo", running],
        }
        starter = subprocess.Popen(
            [sys.executable, str(self._agent), "keep"],
            stdin=subprocess.PIPE,
            text=True,
            env={
                "PATH": f"{self.directory}:/usr/bin:/bin",
                lease.DIRECTORY_VARIABLE: str(self.directory / "leases"),
                "KEEPER_OF": str(self.directory),
            },
        )
        assert starter.stdin is not None
        starter.stdin.write(json.dumps(document) + "\n")
        starter.stdin.flush()
        starter.wait()
        self._starters.append(starter)

    def start(self) -> borrow.Loan:
        """The run appears, at once and with its supervisor, as `start` has it."""
        staged = RunDir(str(self.directory / "runs" / ".staged"))
        staged.create({"files": {}})
        Path(staged.pid).write_text(json.dumps(process.identity(self._supervisor.pid)))
        os.rename(staged.path, self.run.path)
        return borrow.Loan(self.run, "box")

    def start_is_over(self) -> None:
        for starter in self._starters:
            assert starter.stdin is not None
            starter.stdin.close()

    def end(self) -> None:
        """The run ends, however."""
        self._supervisor.kill()
        self._supervisor.wait()

    def processes(self, word: str = "") -> list[int]:
        """Keepers and bridges that live."""
        mark, found = f"KEEPER_OF={self.directory}".encode(), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if mark in environment and (not word or word in command):
                found.append(int(pid))
        return found

    def leased(self) -> bool:
        for path in self.directory.glob("leases/*.lock"):
            with path.open("r+") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return True
        return False


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    lab.end()
    lab.start_is_over()
    until(lambda: not lab.processes())


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_a_device_is_lent_looked_at_and_given_back(lab: Lab) -> None:
    lab.keep()
    loan = lab.start()
    loan.acquire(lambda **_: None)
    (device,) = loan.devices
    assert (device["logic"], device["inside"]) == (2, 0)
    assert lab.leased()
    moment = loan.look("loaded")
    assert [device.logic for device in moment["devices"]] == [0, 1, 2, 3]
    loan.release()
    assert not lab.leased()
    lab.end()
    until(lambda: not lab.processes())


def test_a_lease_ends_with_the_run_whatever_it_died_of(lab: Lab) -> None:
    lab.keep()
    lab.start().acquire(lambda **_: None)
    assert lab.leased()
    lab.end()
    until(lambda: not lab.leased())
    until(lambda: not lab.processes())


def test_a_way_that_breaks_is_tried_again_and_nothing_is_leased_twice(lab: Lab) -> None:
    lab.keep()
    loan = lab.start()
    loan.acquire(lambda **_: None)
    (way,) = lab.processes("bridge")
    os.kill(way, 9)
    until(lambda: lab.processes("bridge") not in ([], [way]))
    assert [device.logic for device in loan.look("recorded")["devices"]] == [0, 1, 2, 3]
    loan.release()
    assert not lab.leased()


def test_a_container_that_has_stopped_frees_the_device(lab: Lab) -> None:
    lab.keep(running="false")
    lab.start().acquire(lambda **_: None)
    (way,) = lab.processes("bridge")
    os.kill(way, 9)
    until(lambda: not lab.leased())
    until(lambda: not lab.processes())


def test_a_second_keeper_leaves_the_run_to_the_first(lab: Lab) -> None:
    lab.keep()
    lab.start().acquire(lambda **_: None)
    first = set(lab.processes())
    lab.keep()
    until(lambda: set(lab.processes()) <= first)
    assert lab.leased()


def test_who_starts_nothing_keeps_nothing(lab: Lab) -> None:
    lab.keep()
    until(lambda: lab.processes("bridge"))
    lab.start_is_over()
    until(lambda: not lab.processes())


def test_a_refusal_comes_in_the_hosts_words(lab: Lab) -> None:
    (lab.directory / "info").write_text("dcmi module initialize failed. ret is -8005\n")
    lab.keep()
    with pytest.raises(Failure, match="-8005") as refused:
        lab.start().acquire(lambda **_: None)
    assert refused.value.kind == "NpuSmiDriverError"
    assert not lab.leased()


def test_a_wait_is_told_and_ends_with_the_run(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(lease.DIRECTORY_VARIABLE, str(lab.directory / "leases"))
    taken = lease.take([DEVICE], "another", 60)
    lab.keep(wait_s=600)
    loan = lab.start()

    def told(**fields: Any) -> None:
        assert fields["stage"] == "wait"
        assert "leased by run another" in fields["reasons"][0]
        raise InterruptedError

    with pytest.raises(InterruptedError):
        loan.acquire(told)
    lab.end()
    until(lambda: not lab.processes())
    taken.release()


def test_a_loan_without_a_keeper_is_no_loan(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    loan = lab.start()
    loan.check()
    monkeypatch.setattr(borrow, "START_S", 0.0)
    with pytest.raises(Failure, match="the host no longer keeps the devices of the run in the container box"):
        loan.check()
    loan.release()
    loan.check()
