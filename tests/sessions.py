"""What tests of the simulated host share: sessions on it, by paramiko alone."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import paramiko
import pytest

from collect_remote.ssh.ssh_config import Hop
from simhost import SimHost, openssh

HOP = Hop(
    name="npu",
    address="192.0.2.1",
    port=22,
    user="me",
    identity_files=(),
    identity_named=False,
    identities_only=False,
    jumps=(),
    proxy_command=None,
    known_hosts=(),
    new_keys=None,
    alias=None,
    accept_new=False,
    host_key=None,
    connect_timeout=1.0,
)  # of which every test says what matters to it


needs_sshd = pytest.mark.skipif(openssh.sshd() is None, reason="no usable sshd on this machine")


def shells(*names: str) -> list[Any]:
    """Login shells as parameters of a test; those that the machine does not have are skipped."""
    missing = [pytest.mark.skipif(shutil.which(name) is None, reason=f"no {name} on this machine") for name in names]
    return [pytest.param(name, marks=mark) for name, mark in zip(names, missing, strict=True)]


@contextmanager
def connected(host: SimHost, sock: paramiko.Channel | None = None, **how: Any) -> Iterator[paramiko.SSHClient]:
    """A strict paramiko client of `host`; `how` as paramiko's connect() takes it."""
    with paramiko.SSHClient() as client:
        client.load_host_keys(str(host.known_hosts))
        client.connect(
            **{
                "hostname": host.address,
                "port": host.port,
                "username": host.user,
                "key_filename": str(host.identity_file),
                "sock": sock,
                "allow_agent": False,
                "look_for_keys": False,
                "timeout": 10,
                **how,
            },
        )
        yield client


def run(client: paramiko.SSHClient, command: str, data: bytes = b"") -> tuple[int, bytes, bytes]:
    """(status, stdout, stderr) of `command` with `data` on its stdin."""
    stdin, stdout, stderr = client.exec_command(command, timeout=20)
    with ThreadPoolExecutor(2) as readers:
        out, err = readers.submit(stdout.read), readers.submit(stderr.read)
        stdin.write(data)
        stdin.channel.shutdown_write()
        return stdout.channel.recv_exit_status(), out.result(), err.result()


def until(condition: Callable[[], object]) -> None:
    """Wait for `condition`, at most five seconds."""
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
