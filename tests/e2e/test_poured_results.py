"""Results that ssh itself writes, from the run to the published profile. What is poured is large in life."""

from __future__ import annotations

import hashlib
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from boxes import box, inside
from harness import Outcome, Tool
from simhost import SimHost
from simhost.link import Link

Start = Callable[..., SimHost]
ANY_SIZE = """
import sys
from collect_remote.cli.main import main
from collect_remote.collection import transfer
from collect_remote.ssh import pour

class Watched(pour.Pour):
    def go(self):
        super().go()
        with open("poured", "a") as file:
            file.write("once ")

transfer.POURED_BYTES, pour.Pour = 1, Watched
sys.exit(main())
"""
NOISE = "echo Welcome; echo Welcome >&2; read -r answer; printf 'half a line'\n"


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.COLLECT_REMOTE", [sys.executable, "-c", ANY_SIZE])


def whole(tool: Tool, outcome: Outcome) -> dict[str, Any]:
    """The manifest of a result that is here as the host has packed it."""
    assert outcome.status == 0, outcome.err
    archive = tool.directory / outcome.document["directory"] / "profile_l1.tar.gz"
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == outcome.document["archive"]["sha256"]
    return dict(outcome.document)


def poured(tool: Tool) -> int:
    record = tool.directory / "poured"
    return len(record.read_text().split()) if record.exists() else 0


def test_a_profile_past_a_login_that_prints_and_asks(host: Start, tool: Tool) -> None:
    ascend = host(rc=NOISE)
    tool.inventory(ascend, entries={"ascend01": {"transport": "openssh"}})
    assert whole(tool, tool.collect())["verdict"] == "valid"
    assert poured(tool) == 1
    assert list((ascend.workdir / "runs").iterdir()) == []


def test_another_tool_goes_on_where_one_was_interrupted(host: Start, tool: Tool) -> None:
    ascend = host(rc=NOISE)
    with Link(ascend.address, ascend.port) as link:
        tool.inventory(ascend, entries={"ascend01": {"transport": "openssh", "port": link.port}})
        process = tool.start("--host", "ascend01", "--model", "llama", "--keep-raw")
        assert process.stderr is not None
        assert any("validating" in line for line in process.stderr)
        link.rate = 15_000
        while not poured(tool):
            assert process.poll() is None
            time.sleep(0.02)
        (archive,) = tool.profiles.glob(".incoming/*/profile_l1.tar.gz")
        while not archive.stat().st_size:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130, err
    run = archive.parent.name.partition(".")[0]
    packed = (ascend.workdir / "runs" / run / archive.name).read_bytes()
    assert 0 < archive.stat().st_size < len(packed)
    assert packed.startswith(archive.read_bytes())
    tool.inventory(ascend, entries={"ascend01": {"transport": "openssh"}})
    whole(tool, tool("attach", run, "--host", "ascend01", "--json"))
    assert poured(tool) == 2
    assert not (tool.profiles / ".incoming").exists()


def test_what_is_in_a_container_is_carried(host: Start, tool: Tool) -> None:
    ascend = host(rc=NOISE, container_engine="docker")
    box(ascend)
    inside(tool, ascend, transport="openssh")
    whole(tool, tool.collect())
    assert poured(tool) == 0
