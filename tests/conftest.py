"""Fixtures of all tests: simulated Ascend hosts, and a client account of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import manifests
import sweeps
from harness import Tool, command_line, gone, leases
from simhost import SimHost

ASCEND_VENV = Path(
    os.environ.get("COLLECT_REMOTE_ASCEND_VENV") or Path(__file__).resolve().parents[1] / ".venv" / "ascend"
)


# Beginnings of what CI leaves to the whole run: it has seen their kind on the other runtime, with the other transport
# or in a simpler case, and has a quarter of an hour.
REPEATED = tuple(Path(__file__).with_name("repeated.txt").read_text(encoding="utf-8").splitlines())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of one end-to-end test, CI takes every other where there are four and more."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.nodeid.startswith(REPEATED):
            item.add_marker("exhaustive")
        elif "e2e" in item.path.parts:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for several in cases.values():
        for item in several[1::2] if len(several) >= 4 else ():
            item.add_marker("exhaustive")


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """The usual one: a test that runs a part of the agent in this process leaves the agent's to none."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def simhost(tmp_path: Path) -> Iterator[Callable[..., SimHost]]:
    """Start simulated hosts, ``simhost(name="ascend02", chip="Ascend910", ...)``; each ends with the test."""
    with ExitStack() as running:

        def start(name: str = "ascend01", **options: object) -> SimHost:
            if options.get("runtime") == "torch_npu":
                options.setdefault("ascend_venv", ASCEND_VENV)
            return running.enter_context(SimHost(tmp_path / name, name=name, **options))

        yield start


@pytest.fixture(scope="session")
def ascend_runtime() -> str:
    """The runtime with the real torch_npu; skips where it is not installed."""
    if not list(ASCEND_VENV.glob("lib/python3*/site-packages/torch_npu")):
        pytest.skip(f"no torch_npu in {ASCEND_VENV}")
    return "torch_npu"


@pytest.fixture(params=["light", pytest.param("torch_npu", marks=pytest.mark.torch_npu)])
def runtime(request: pytest.FixtureRequest) -> str:
    """The runtimes of a simulated host, for tests that hold on both."""
    return "light" if request.param == "light" else str(request.getfixturevalue("ascend_runtime"))


@pytest.fixture
def client_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clean HOME: an empty .ssh, no agent.  (The ``ssh`` program looks at the account, not at HOME.)"""
    home = tmp_path / "client-home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory for what is temporary: of this test alone, with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(folder)


@pytest.fixture
def tool(tmp_path: Path, client_home: Path) -> Iterator[Tool]:
    """The tool in a directory of its own; what it published there by the end of a test is as the schemas say."""
    directory = tmp_path / "here"
    directory.mkdir()
    yield Tool(directory)
    manifests.check_published(directory)
    sweeps.check_written(directory)


@pytest.fixture
def host(simhost: Callable[..., SimHost], tmp_path: Path) -> Callable[..., SimHost]:
    """Start a simulated host whose leases are its own."""

    def start(name: str = "ascend01", **options: Any) -> SimHost:
        environment = {"COLLECT_REMOTE_LEASE_DIR": str(tmp_path / f"leases-{name}"), **options.pop("env", {})}
        return simhost(name=name, env=environment, **options)

    return start


@pytest.fixture
def assert_clean(tmp_path: Path, tool: Tool) -> Iterator[Callable[..., None]]:
    """Nothing under a final name here, no process and no device held on the host."""

    def check(*hosts: SimHost) -> None:
        for host in hosts:
            assert gone(host.processes), [command_line(pid) for pid in host.processes()]
            assert host.held() == {}
        assert leases(tmp_path) == []
        assert sorted(path for path in tool.profiles.rglob("*") if not path.is_dir()) == []
        assert not (tool.profiles / ".incoming").exists()

    yield check
