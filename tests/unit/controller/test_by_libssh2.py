"""The lightest transport, where it is taken: what it carries, what it leaves to paramiko, what it says by itself."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from collect_remote.errors import AuthError, HostKeyError, UnreachableError
from collect_remote.inventory import Host, load
from collect_remote.ssh import remote as remotes
from collect_remote.ssh import transports
from collect_remote.ssh.remote import Remote
from collect_remote.ssh.transports import Lost, by_libssh2
from collect_remote.ssh.transports.libssh2_session import Wire
from sessions import needs_sshd, until
from simhost import SimHost, keys
from simhost.link import Link
from simhost.strangers import silent_server, tamperer, web_server

Start = Callable[..., SimHost]
Entry = Callable[..., Host]
KIB = 1024


@pytest.fixture
def entry(tmp_path: Path, client_home: Path) -> Entry:
    """The inventory's host for a simulated one, of which no transport is said; None takes a key out."""

    def made(sim: SimHost, **changes: Any) -> Host:
        path = tmp_path / "inventory.yaml"
        said = {key: value for key, value in {**sim.inventory_entry(), **changes}.items() if value is not None}
        path.write_text(yaml.safe_dump({"all": {"hosts": {sim.name: said}}}))
        return load(path).host(sim.name)

    return made


def brief(host: Host) -> Remote:
    return Remote(host, brief=True)


def said(remote: Remote, script: str) -> list[bytes]:
    with remote.stream(script) as stream:
        return list(stream.lines(20))


def by(host: Host) -> str:
    """The transport by which the host says something."""
    with brief(host) as remote:
        assert said(remote, "echo there") == [b"there"]
        assert remote.login is not None
        return remote.login.transport


def refused(host: Host, error: type[Exception], words: str) -> float:
    """Seconds until that is told."""
    began = time.monotonic()
    with pytest.raises(error, match=words), brief(host):
        pass
    return time.monotonic() - began


@pytest.mark.parametrize("server", [pytest.param("openssh", marks=needs_sshd), "asyncssh"])
def test_scripts_one_after_the_other(simhost: Start, entry: Entry, server: str) -> None:
    host = simhost(server=server, login_noise="Welcome\n")
    with brief(entry(host)) as remote:
        for number in range(3):
            with remote.stream(f"echo {number}; echo err >&2; exit {number}") as stream:
                assert list(stream.lines(20)) == [b"%d" % number, b"err", b"Welcome"]
                assert stream.status() == number
        login = remote.login
        assert remote.is_open
    assert not remote.is_open
    assert login is not None
    assert (login.transport, login.user, login.cipher) == ("libssh2", host.user, "aes128-gcm@openssh.com")
    (step,) = login.steps
    assert login.total_s == pytest.approx(step.connect_s + step.handshake_s + step.authenticate_s)
    assert 0 < (login.first_output_s or 0) < 20


def test_bytes_are_not_touched_either_way(simhost: Start, entry: Entry, tmp_path: Path) -> None:
    every = bytes(range(256)) * (2 * KIB)
    script = f"head -c {len(every)} >kept; cat kept kept kept kept kept; echo end"  # more than a window
    with brief(entry(simhost())) as remote, remote.stream(script) as stream:
        stream.send(every)
        with (tmp_path / "copy").open("wb", buffering=0) as file:
            for _ in stream.copy(file.fileno(), 5 * len(every), 20):
                pass
        assert list(stream.lines(20)) == [b"end"]
    assert (tmp_path / "copy").read_bytes() == 5 * every


def test_a_window_full_of_errors_is_no_end(simhost: Start, entry: Entry) -> None:
    host = simhost(rc=f"head -c {6 * KIB * KIB} /dev/zero | tr '\\0' e >&2; echo >&2\n")
    with brief(entry(host)) as remote, remote.stream("echo there") as stream:
        assert next(stream.lines(20)) == b"there"


def test_silence_an_end_and_a_connection_that_breaks(simhost: Start, entry: Entry) -> None:
    host = simhost()
    with Link(host.address, host.port) as link, brief(entry(host, port=link.port)) as remote:
        with remote.stream("sleep 20") as stream, pytest.raises(UnreachableError, match=r"no sign of life for 0\.3 s"):
            list(stream.lines(0.3))
        with remote.stream("echo go; sleep 20") as stream:
            lines = stream.lines(20)
            assert next(lines) == b"go"
            link.cut()
            with pytest.raises(UnreachableError, match="the connection broke"):
                list(lines)
        assert not remote.is_open
        with pytest.raises(UnreachableError, match="cannot start a command"):
            said(remote, "echo never")


def test_nothing_is_left_here_and_nothing_is_said_to_the_next_socket(simhost: Start, entry: Entry) -> None:
    host = entry(simhost())
    by(host)
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with brief(host) as remote:
            stream = remote.stream("echo there; sleep 20")
            assert next(stream.lines(20)) == b"there"
            channel = stream._channel
        reader, writer = os.pipe()  # they get the numbers that are free now
        stream.close()
        for use in (lambda c=channel: c.read(1.0), lambda c=channel: c.write(b"x", 1.0)):
            with pytest.raises(Lost, match="is closed"):
                use()
        assert (channel.errors(), channel.status(1.0)) == (b"", -1)
        del stream, channel
        gc.collect()
        os.set_blocking(reader, False)
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)
        os.close(reader)
        os.close(writer)
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (threads, files)


def test_it_may_be_closed_while_others_use_it(simhost: Start, entry: Entry) -> None:
    """As when a Ctrl-C ends the command: the threads that ask go on for a moment."""
    host = entry(simhost())
    for number in range(12):
        remote = brief(host)
        remote.open()
        connection = remote._connection
        assert connection is not None
        reading = threading.Thread(target=read_on, args=(connection.start("exec head -c 3000000 /dev/zero"),))
        closing = [threading.Thread(target=connection.close) for _ in range(2)]
        reading.start()
        time.sleep(number * 0.002)
        for thread in (*closing, reading):
            if thread is not reading:
                thread.start()
        for thread in (*closing, reading):
            thread.join(20)
            assert not thread.is_alive()
        assert not connection.is_open


def read_on(channel: transports.Channel) -> None:
    with contextlib.suppress(Lost):
        while channel.read(20.0):
            pass


@needs_sshd
def test_a_server_that_allows_one_session_at_a_time(simhost: Start, entry: Entry) -> None:
    with brief(entry(simhost(server="openssh", sshd={"MaxSessions": "1"}))) as remote:
        assert [said(remote, f"echo {number}") for number in range(8)] == [[b"%d" % number] for number in range(8)]


def test_whatever_comes_a_wait_ends_in_its_time() -> None:
    ours, theirs = socket.socketpair()
    with contextlib.closing(Wire(ours)) as wire, theirs:
        theirs.sendall(b"more and more")
        assert wire.is_ready(time.monotonic() + 20)
        assert not wire.is_ready(time.monotonic() - 0.1)


def test_a_key_that_is_gone_is_not_offered_again(simhost: Start, entry: Entry, tmp_path: Path) -> None:
    pair, mine = keys.generate(), tmp_path / "mine"
    mine.write_bytes(pair.private)
    mine.chmod(0o600)
    host = entry(simhost(authorized_keys=[pair.public]), identity_file=str(mine))
    assert by(host) == "libssh2"
    mine.unlink()
    refused(host, AuthError, "cannot be read")


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
@pytest.mark.parametrize("server", [pytest.param("openssh", marks=needs_sshd), "asyncssh"])
def test_keys_of_hosts_and_of_users(simhost: Start, entry: Entry, tmp_path: Path, server: str, kind: Any) -> None:
    pair = keys.generate(kind)
    host = simhost(server=server, host_key_kind=kind, authorized_keys=[pair.public])
    (tmp_path / "mine").write_bytes(pair.private)
    (tmp_path / "mine").chmod(0o600)
    assert by(entry(host, identity_file=str(tmp_path / "mine"))) == ("paramiko" if kind == "rsa" else "libssh2")


@needs_sshd
@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen here")
def test_a_key_in_the_older_format_is_left_to_paramiko(simhost: Start, entry: Entry, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-m", "PEM", "-N", "", "-f", mine], check=True)
    assert mine.read_text().startswith("-----BEGIN EC PRIVATE KEY-----")
    host = simhost(server="openssh", authorized_keys=[mine.with_name("mine.pub").read_text().strip()])
    assert by(entry(host, identity_file=str(mine))) == "paramiko"


def second_key(host: SimHost, home: Path) -> None:
    """ssh_config offers two, of which the host takes the second."""
    (home / ".ssh" / "first").write_bytes(keys.generate().private)
    (home / ".ssh" / "first").chmod(0o600)
    config = f"Host *\n    IdentityFile ~/.ssh/first\n    IdentityFile {host.identity_file}\n"
    (home / ".ssh" / "config").write_text(config)


def proxy(host: SimHost, home: Path) -> None:
    carry = Path(__file__).parents[2] / "carry.py"
    (home / ".ssh" / "config").write_text(f"Host *\n    ProxyCommand {sys.executable} {carry} %h %p\n")


def ciphers(host: SimHost, home: Path) -> None:
    (home / ".ssh" / "config").write_text("Host *\n    Ciphers aes256-ctr\n")


def certificate(host: SimHost, home: Path) -> None:
    keys.stored(home / "authority", keys.generate())
    keys.certify(home / "authority", host.identity_file, principals=host.user)


@pytest.mark.parametrize("way", [second_key, proxy, ciphers, certificate])
def test_what_it_cannot_is_left_to_paramiko(
    simhost: Start, entry: Entry, client_home: Path, way: Callable[[SimHost, Path], None]
) -> None:
    host = simhost()
    way(host, client_home)
    changes = {"identity_file": None} if way is second_key else {}
    assert by(entry(host, **changes)) == "paramiko"


def test_a_jump_host_is_left_to_paramiko(simhost: Start, entry: Entry, client_home: Path) -> None:
    gate = simhost("gate")
    (client_home / ".ssh" / "known_hosts").write_text(gate.known_hosts.read_text())
    (client_home / ".ssh" / "config").write_text(
        f"Host gate\n    HostName {gate.address}\n    Port {gate.port}\n    IdentityFile {gate.identity_file}\n"
    )
    assert by(entry(simhost(), jump="gate")) == "paramiko"


def test_who_names_paramiko_gets_it(simhost: Start, entry: Entry) -> None:
    assert by(entry(simhost(), transport="paramiko")) == "paramiko"


def test_where_it_is_not_installed_paramiko_serves(
    simhost: Start, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ssh2", None)
    monkeypatch.setitem(sys.modules, "ssh2.session", None)
    monkeypatch.setitem(sys.modules, "ssh2.error_codes", None)
    monkeypatch.delitem(sys.modules, "collect_remote.ssh.transports.by_libssh2", raising=False)
    monkeypatch.delattr(transports, "by_libssh2", raising=False)
    monkeypatch.setattr(remotes, "_libssh2", remotes._libssh2.__wrapped__)
    assert by(entry(simhost())) == "paramiko"


def test_only_the_key_that_is_known(simhost: Start, entry: Entry, client_home: Path) -> None:
    host, known = simhost(), client_home / ".ssh" / "known_hosts"
    other = keys.generate().public
    refused(entry(host, host_key=other), HostKeyError, "shows the host key")
    refused(entry(host, host_key=None), HostKeyError, "not a known host")
    known.write_text(f"@revoked * {host.host_key}\n")
    refused(entry(host, host_key=None), HostKeyError, "marks as revoked")
    known.write_text("")
    (client_home / ".ssh" / "config").write_text("Host *\n    StrictHostKeyChecking accept-new\n")
    assert by(entry(host, host_key=None)) == "libssh2"
    assert host.host_key in known.read_text()


def test_no_key_that_is_accepted_is_told_by_paramiko(simhost: Start, entry: Entry, tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(keys.generate().private)
    (tmp_path / "mine").chmod(0o600)
    refused(entry(simhost(), identity_file=str(tmp_path / "mine")), AuthError, "refused the login")


def test_what_is_no_server_is_told_once(simhost: Start, entry: Entry, client_home: Path) -> None:
    host = simhost()
    (client_home / ".ssh" / "config").write_text("Host *\n    ConnectTimeout 1\n")
    refused(entry(host, port=1), UnreachableError, "connection refused")
    refused(entry(host, address="no-such-host.invalid"), UnreachableError, "does not resolve")
    with silent_server() as port:
        assert refused(entry(host, port=port), UnreachableError, "sent no SSH banner in 1 s") < 1.9
    with web_server() as port:
        refused(entry(host, port=port), UnreachableError, "is not an SSH server|sent no SSH banner")


def test_a_login_that_stalls_ends_in_its_time(
    simhost: Start, entry: Entry, client_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_libssh2, "HANDSHAKE_S", 0.5)
    (client_home / ".ssh" / "config").write_text("Host *\n    ConnectTimeout 1\n")
    with silent_server(b"SSH-2.0-OpenSSH_9.9\r\n") as port:
        assert refused(entry(simhost(), port=port), UnreachableError, "no connection after 2 s: timed out") < 2.5


def test_a_bit_that_was_changed_on_the_way_is_noticed(simhost: Start, entry: Entry) -> None:
    host = simhost()
    with tamperer(host.address, host.port, 20_000) as port, brief(entry(host, port=port)) as remote:
        with pytest.raises(UnreachableError, match="the connection broke: DecryptError"):
            said(remote, "head -c 100000 /dev/zero | tr '\\0' x; echo")
        assert remote.login is not None
        assert remote.login.transport == "libssh2"


@needs_sshd
def test_a_server_that_turns_some_away_is_asked_again(simhost: Start, entry: Entry) -> None:
    host = entry(simhost(server="openssh", sshd={"MaxStartups": "1:100:1"}))
    found: list[str] = []
    asking = [threading.Thread(target=lambda: found.append(by(host))) for _ in range(3)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(60)
    until(lambda: len(found) == 3)
