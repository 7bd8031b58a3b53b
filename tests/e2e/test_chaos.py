"""Whatever happens to the connection, the server and the controller: every run ends well, started exactly once.

COLLECT_REMOTE_CHAOS="RUNS CUTS" makes it as long as one likes; "20 50" takes a quarter of an hour.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collect_agent.output.archive import check_archive
from harness import Tool
from simhost import SimHost
from simhost.link import Link

Start = Callable[..., SimHost]
Clean = Callable[..., None]

RUNS, CUTS = map(int, os.environ.get("COLLECT_REMOTE_CHAOS", "2 12").split())
BETWEEN_S = 0.4  # cuts, on average; coming back takes about as long
LOG_MB = 8
LOGIN_BYTES = 6000  # the first login is through by then; one that fails is told and not persisted in

MODEL = f"""
import os, time
import torch

def load(device, options):
    with open(options["started"], "a") as file:
        file.write("once\\n")
    for _ in range({LOG_MB} * 2):
        print(os.urandom(1 << 18).hex())
    while not os.path.exists(options["gate"]):
        time.sleep(0.05)
    return torch.ones(4, 4).to(device)

def forward(state):
    time.sleep(0.1)
    return state @ state
"""


class Lab:
    """A host behind a bad network, and a model that goes on when `go` is called."""

    def __init__(self, host: SimHost, tool: Tool, link: Link, transport: str, tmp_path: Path) -> None:
        self.host, self.tool, self.link, self.started = host, tool, link, tmp_path / "started"
        self._gate = tmp_path / "gate"
        self._kept = tmp_path / "kept.tar.gz"
        (tool.directory / "slow.py").write_text(MODEL)
        tool.inventory(
            host,
            models={"slow": {"adapter": "./slow.py", "started": str(self.started), "gate": str(self._gate)}},
            entries={"ascend01": {"port": link.port, "transport": transport}},
        )

    def go(self) -> None:
        self._gate.touch()

    def collect(self, meanwhile: Callable[[subprocess.Popen[str]], None]) -> None:
        """One collection, `meanwhile` in a thread beside it; what it brings is what the host had."""
        self.started.unlink(missing_ok=True)
        self._kept.unlink(missing_ok=True)
        process = self.tool.start("--host", "ascend01", "--model", "slow", "--steps", "15", "--json")
        threads = [
            threading.Thread(target=meanwhile, args=(process,)),
            threading.Thread(target=self._keep, args=(process,)),
        ]
        for thread in threads:
            thread.start()
        _, err = process.communicate(timeout=600)
        for thread in threads:
            thread.join()
        assert process.returncode == 0, err
        archive = (self.tool.profiles / "ascend01/slow/latest/profile_l1.tar.gz").resolve()
        assert check_archive(str(archive))["manifest"]["verdict"] == "valid"
        assert digest(archive) == digest(self._kept)
        assert self.started.read_text() == "once\n"

    def _keep(self, process: subprocess.Popen[str]) -> None:
        """A second name for the archive on the host, which is gone from there when it has been brought."""
        while process.poll() is None and not self._kept.exists():
            for path in self.host.workdir.glob("runs/*/profile_l1.tar.gz"):
                os.link(path, self._kept)
            time.sleep(0.01)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(params=["paramiko", "openssh"])
def lab(request: pytest.FixtureRequest, host: Start, tool: Tool, tmp_path: Path) -> Iterator[Lab]:
    ascend = host()
    with Link(ascend.address, ascend.port) as link:
        yield Lab(ascend, tool, link, request.param, tmp_path)


@pytest.mark.parametrize("seed", range(RUNS))
def test_cuts_at_random_moments(lab: Lab, seed: int) -> None:
    def meanwhile(process: subprocess.Popen[str]) -> None:
        while lab.link.to_client < LOGIN_BYTES and process.poll() is None:
            time.sleep(0.01)
        lab.link.cut_at_random(random.Random(seed), every_s=BETWEEN_S, times=2 * CUTS)
        while lab.link.cuts < CUTS and process.poll() is None:
            time.sleep(0.01)
        lab.go()  # through profile and pull, where some more fall

    lab.collect(meanwhile)
    assert lab.link.cuts >= CUTS


def test_a_server_that_is_started_again_and_again(lab: Lab) -> None:
    def meanwhile(process: subprocess.Popen[str]) -> None:
        lab.go()
        while process.poll() is None:
            time.sleep(1.0)
            lab.host.restart_server()

    lab.collect(meanwhile)


def test_a_controller_that_is_stopped_and_continued(lab: Lab) -> None:
    def meanwhile(process: subprocess.Popen[str]) -> None:
        lab.go()
        dice = random.Random(7)
        while process.poll() is None:
            for number in (signal.SIGSTOP, signal.SIGCONT):
                process.send_signal(number)
                time.sleep(dice.uniform(0.05, 0.5))

    lab.collect(meanwhile)
