"""What lies on the way to a host: jump hosts, agents, directories, servers that allow little. Over both transports."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collect_remote.errors import ConnectError, EnvironmentUnfit, UnreachableError
from collect_remote.inventory import Host
from collect_remote.ssh import agent_socket
from collect_remote.ssh.remote import Remote
from sessions import needs_sshd, until
from simhost import SimHost
from simhost.link import Link
from simhost.strangers import silent_server

Start = Callable[..., SimHost]
Entry = Callable[..., Host]


def said(remote: Remote, script: str) -> list[bytes]:
    with remote.stream(script) as stream:
        return list(stream.lines(20))


def gate_of(host: SimHost, *lines: str) -> str:
    """An entry `gate` of ssh_config, whose key has to be in the usual known_hosts."""
    settings = (f"HostName {host.address}", f"Port {host.port}", f"User {host.user}", *lines)
    return "Host gate\n" + "".join(f"    {setting}\n" for setting in settings)


def test_files_of_a_jump_host_are_those_of_this_home(simhost: Start, entry: Entry, client_home: Path) -> None:
    ascend, gate, outer = simhost(), simhost("gate"), simhost("outer")
    (client_home / "keys").mkdir()
    for number, host in enumerate((gate, outer)):
        (client_home / "keys" / f"{number}").write_bytes(host.identity_file.read_bytes())
        (client_home / "keys" / f"{number}").chmod(0o600)
    (client_home / ".ssh" / "known_hosts").write_text(gate.known_hosts.read_text() + outer.known_hosts.read_text())
    (client_home / ".ssh" / "config").write_text(
        gate_of(gate, "IdentityFile ~/keys/0", "ProxyJump outer")
        + gate_of(outer, "IdentityFile ~/keys/1").replace("Host gate", "Host outer")
    )
    with Remote(entry(ascend, jump="gate")) as remote:
        assert said(remote, "echo there") == [b"there"]


def test_a_silent_host_behind_a_jump_host_is_told_in_its_own_time(
    simhost: Start, entry: Entry, client_home: Path
) -> None:
    gate = simhost("gate")
    (client_home / ".ssh" / "known_hosts").write_text(gate.known_hosts.read_text())
    config = "Host silent\n    HostName 127.0.0.1\n    ConnectTimeout 1\n    ProxyJump gate\n"
    (client_home / ".ssh" / "config").write_text(config + gate_of(gate, f"IdentityFile {gate.identity_file}"))
    silent = pytest.raises(UnreachableError, match=r"silent \(.* sent no SSH banner in 1 s")
    with silent_server() as port, silent, Remote(entry(gate, address="silent", port=port)):
        pass


def test_what_ssh_config_ignores_is_ignored(simhost: Start, entry: Entry, client_home: Path) -> None:
    (client_home / ".ssh" / "config").write_text("IgnoreUnknown UseKeychain\nHost *\n    UseKeychain yes\n")
    with Remote(entry(simhost())) as remote:
        assert said(remote, "echo there") == [b"there"]


def test_a_host_may_be_silent_for_as_long_as_one_likes(simhost: Start, entry: Entry, client_home: Path) -> None:
    config = "Host *\n    ServerAliveInterval 60\n    ServerAliveCountMax 99999\n"
    (client_home / ".ssh" / "config").write_text(config)
    with Remote(entry(simhost())) as remote:
        assert said(remote, "echo there") == [b"there"]


@pytest.fixture
def hanging_agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An ssh-agent that takes connections and says nothing."""
    monkeypatch.setattr(agent_socket, "ANSWER_S", 0.5)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/agent")
        listener.listen(64)
        monkeypatch.setenv("SSH_AUTH_SOCK", f"{folder}/agent")
        yield f"{folder}/agent"


def test_an_agent_that_hangs_is_named_once_and_passed_over(
    simhost: Start, entry: Entry, hanging_agent: str, caplog: pytest.LogCaptureFixture
) -> None:
    host = entry(simhost())
    for _ in range(2):
        with Remote(host) as remote:
            assert said(remote, "echo there") == [b"there"]
    assert [record.getMessage().partition(" gives")[0] for record in caplog.records] == [
        f"the ssh-agent at {hanging_agent}"
    ]


@pytest.mark.parametrize("name", ['a "quoted" one', "it's", "100%h", "$HOME;x"])
def test_any_directory_for_what_is_temporary(
    simhost: Start, entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        (folder := Path(short, name)).mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        with Remote(entry(simhost())) as remote:
            assert said(remote, "echo there") == [b"there"]


@pytest.mark.parametrize("server", [pytest.param("openssh", marks=needs_sshd), "asyncssh"])
def test_a_login_that_a_signal_ends_is_told_at_once(simhost: Start, entry: Entry, server: str) -> None:
    ended = pytest.raises(EnvironmentUnfit, match=r"was ended by a signal .*: about to go$")
    with Remote(entry(simhost(server=server, rc="echo about to go; kill -9 $$\n"))) as remote:
        with ended as caught:
            said(remote, "echo never")
        assert "kill" in caught.value.remedy
        assert remote.is_open


@needs_sshd
def test_a_server_that_allows_one_session_at_a_time(simhost: Start, entry: Entry) -> None:
    host = simhost(server="openssh", sshd={"MaxSessions": "1"})
    with Remote(entry(host)) as remote:
        with remote.stream("echo first; read -r line; echo $line") as stream:
            lines = stream.lines(20)
            assert next(lines) == b"first"
            remote.prepare()
            until(lambda: "no more sessions" in host.log.read_text())
            stream.send(b"last\n")
            assert next(lines) == b"last"
        assert said(remote, "echo second") == [b"second"]
    assert host.log.read_text().count("Accepted publickey") == 1


@needs_sshd
def test_a_session_that_is_refused_is_no_fault_of_the_login(simhost: Start, entry: Entry) -> None:
    host = simhost(server="openssh", sshd={"MaxSessions": "1"})
    with Remote(entry(host)) as remote, remote.stream("echo first; sleep 20") as stream:
        assert next(stream.lines(20)) == b"first"
        with pytest.raises(UnreachableError, match="cannot start a command|allows no further session"):
            said(remote, "echo second")


def test_a_shell_that_is_ready_saves_its_login_and_its_words_are_kept(simhost: Start, entry: Entry) -> None:
    host = simhost(rc="echo hello; echo x >> $HOME/logins\n")
    with Remote(entry(host)) as remote:
        remote.prepare()
        until(lambda: (host.home / "logins").exists())
        with remote.stream("echo there") as stream:
            assert list(stream.lines(20)) == [b"there"]
            assert "hello" in stream.greeting
    assert (host.home / "logins").read_text() == "x\n"


def test_a_shell_that_is_ready_waits_as_long_as_it_takes(simhost: Start, entry: Entry) -> None:
    host = simhost(rc="export TMOUT=1; echo x >> $HOME/logins\n")
    with Remote(entry(host)) as remote:
        remote.prepare()
        until(lambda: (host.home / "logins").exists())
        time.sleep(1.5)
        assert said(remote, "echo there") == [b"there"]
    assert (host.home / "logins").read_text() == "x\n"


def test_a_shell_that_was_ready_and_has_ended_is_replaced(simhost: Start, entry: Entry) -> None:
    """Whether it still speaks when it was last heard, or has said its last since."""
    host = simhost(rc="echo first; sleep 0.3; echo last; echo $$ >> $HOME/logins\n")
    with Remote(entry(host)) as remote:
        remote.prepare()
        until(lambda: (host.home / "logins").exists() and (host.home / "logins").read_text().endswith("\n"))
        time.sleep(0.3)
        os.kill(int((host.home / "logins").read_text()), signal.SIGKILL)
        assert remote._connection is not None
        with contextlib.closing(remote._connection.start("true")) as later:  # the end of the other is told before it
            assert later.status(20) == 0
        time.sleep(0.3)
        assert said(remote, "echo there") == [b"there"]


@pytest.mark.parametrize("end", ["close", "break"])
def test_a_connection_that_ends_while_a_shell_is_made_ready(simhost: Start, entry: Entry, end: str) -> None:
    host = simhost(rc="sleep 30\n")
    with Link(host.address, host.port) as link, Remote(entry(host, port=link.port)) as remote:
        remote.prepare()
        began = time.monotonic()
        if end == "close":
            remote.close()
        else:
            breaker = threading.Timer(0.3, link.cut)
            breaker.start()
            with pytest.raises(ConnectError):
                said(remote, "echo never")
            breaker.join()
        assert time.monotonic() - began < 15
