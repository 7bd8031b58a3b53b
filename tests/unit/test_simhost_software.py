"""What is installed on a simulated host: its Python, CANN, and what may be missing of them.

These need no network: they start the program that the SSH server starts for a session.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pythons import pythons
from simhost import SimHost

SET_ENV = ". Ascend/ascend-toolkit/set_env.sh; "


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SimHost]:
    """A host with the light runtime."""
    with SimHost(tmp_path / "host", server="asyncssh") as started:
        yield started


def on(host: SimHost, command: str) -> subprocess.CompletedProcess[str]:
    """Run `command` in a session of `host`."""
    return subprocess.run(
        [host.root / "ssh" / "session"],
        env={"SSH_ORIGINAL_COMMAND": command},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


@pytest.mark.parametrize("version", pythons())
def test_the_hosts_python_is_a_venv_with_the_runtime(tmp_path: Path, version: str) -> None:
    code = "import sys, importlib.metadata as m; print(sys.prefix, *sys.version_info[:2], m.version('torch_npu'))"
    with SimHost(tmp_path / "host", python=pythons()[version], server="asyncssh") as host:
        told = on(host, f'python3 -c "{code}"')
        assert told.stdout.split() == [str(host.root), *version.split("."), "2.13.0"], told.stderr


def test_torch_npu_needs_set_env_and_then_holds_the_device_it_uses(
    simhost: Callable[..., SimHost], runtime: str
) -> None:
    host = simhost(runtime=runtime, server="asyncssh")
    bare = on(host, "python3 -c 'import torch_npu'")
    assert bare.returncode == 1
    assert "ImportError: libhccl.so: cannot open shared object file: No such file or directory" in bare.stderr
    code = "import torch, torch_npu; x = torch.ones(4, device='npu:3'); input()"
    with subprocess.Popen(
        [host.root / "ssh" / "session"],
        env={"SSH_ORIGINAL_COMMAND": f'{SET_ENV} exec python3 -c "{code}"'},
        stdin=subprocess.PIPE,
    ) as job:
        try:
            while job.poll() is None and not host.held():
                time.sleep(0.01)
            assert [(pid, list(taken)) for pid, taken in host.held().items()] == [(job.pid, [3])]
        finally:
            job.kill()
    assert host.held() == {}


def test_no_torch_npu(tmp_path: Path) -> None:
    with SimHost(tmp_path / "host", runtime=None, server="asyncssh") as host:
        assert "ModuleNotFoundError" in on(host, SET_ENV + "python3 -c 'import torch_npu'").stderr


def test_a_root_can_change_its_runtime(tmp_path: Path) -> None:
    for runtime, status in (("light", 0), (None, 1), ("light", 0)):
        with SimHost(tmp_path / "host", runtime=runtime, server="asyncssh") as host:
            assert on(host, SET_ENV + "python3 -c 'import torch_npu'").returncode == status


def test_set_env_keeps_what_was_set_before(host: SimHost) -> None:
    told = on(host, "export PYTHONPATH=/mine LD_LIBRARY_PATH=/lib/mine; " + SET_ENV + "env").stdout
    env = dict(line.split("=", 1) for line in told.splitlines())
    toolkit = f"{host.home}/Ascend/ascend-toolkit/latest"
    assert env["ASCEND_HOME_PATH"] == env["ASCEND_TOOLKIT_HOME"] == toolkit
    for name, mine in {"PYTHONPATH": "/mine", "LD_LIBRARY_PATH": "/lib/mine", "PATH": "/bin"}.items():
        first, *_, last = env[name].split(":")
        assert first.startswith(toolkit)
        assert last == mine


def test_the_toolkit_says_its_version(host: SimHost) -> None:
    toolkit = host.home / "Ascend" / "ascend-toolkit" / "latest"
    assert "8.3.RC1" in (toolkit / "version.cfg").read_text()
    (info,) = toolkit.glob("*-linux/ascend_toolkit_install.info")
    assert "\nversion=8.3.RC1\n" in info.read_text()


@pytest.mark.parametrize(
    ("knob", "command", "missing"),
    [
        ({"msprof": False}, SET_ENV + "command -v msprof", {"msprof": True}),
        ({"set_env": False}, "ls Ascend/ascend-toolkit/set_env.sh", {"set_env": True}),
        ({"npu_smi": "nowhere"}, "command -v npu-smi", {"npu_smi": "path"}),
        ({"python3": "missing"}, "command -v python3 || command -v python", {"python3": "good"}),
    ],
)
def test_what_is_missing_is_missing_until_it_comes_back(
    host: SimHost, knob: dict[str, Any], command: str, missing: dict[str, Any]
) -> None:
    assert on(host, command).returncode == 0
    host.set_state(**knob)
    assert on(host, command).returncode != 0
    host.set_state(**missing)
    assert on(host, command).returncode == 0


def test_nothing_of_cann_is_on_the_path_of_a_session(host: SimHost) -> None:
    assert on(host, "command -v msprof").returncode != 0


def test_other_programs_stay_where_python_is_missing(host: SimHost) -> None:
    host.set_state(python3="missing")
    assert on(host, "printf abc | tar --version | head -c 3; sed --version >/dev/null").returncode == 0


def test_an_old_python_says_so_and_runs_no_program(host: SimHost) -> None:
    host.set_state(python3="old")
    assert on(host, "python3 -V").stdout == "Python 3.6.8\n"
    assert on(host, "python3 -c 'import sys; print(sys.version_info[:2])'").stdout == "(3, 6)\n"
    assert on(host, "python3 -c 'import sys; sys.exit(5)'").returncode == 5
    for command in ("python3 program.py", "python3 - </dev/null", "echo | python3"):
        told = on(host, command)
        assert told.returncode == 1
        assert "SyntaxError" in told.stderr


def test_a_disk_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PermissionError, match="needs root"):
        SimHost(tmp_path / "host", disk_mb=1, server="asyncssh").start()
