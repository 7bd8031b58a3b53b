"""One connection and what it carries, over both transports, on a real SSH server."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest

from collect_remote.errors import EnvironmentUnfit, TransferError, UnreachableError
from collect_remote.inventory import Host
from collect_remote.ssh.remote import Remote
from collect_remote.ssh.stream import Stream
from collect_remote.ssh.tenacity import Tenacity
from sessions import needs_sshd, until
from simhost import SimHost
from simhost.link import Link

Start = Callable[..., SimHost]
Entry = Callable[..., Host]
MIB = 1024 * 1024
PROXY = f"Host *\n    ProxyCommand {sys.executable} {Path(__file__).parents[2] / 'carry.py'} %h %p\n"


def said(remote: Remote, script: str, timeout: float = 20) -> list[bytes]:
    with remote.stream(script) as stream:
        return list(stream.lines(timeout))


@pytest.mark.parametrize("server", [pytest.param("openssh", marks=needs_sshd), "asyncssh"])
def test_a_script_its_output_and_its_status(simhost: Start, entry: Entry, server: str) -> None:
    with (
        Remote(entry(simhost(server=server))) as remote,
        remote.stream("echo out; echo err >&2; printf end; exit 3") as stream,
    ):
        assert list(stream.lines(20)) == [b"out", b"err", b"end"]
        assert stream.status() == 3


def test_noise_of_the_login_shell_is_no_part_of_the_output(simhost: Start, entry: Entry) -> None:
    host, size = simhost(login_noise="\x1b[33mWelcome\x1b[0m\n"), 2 * MIB
    with Remote(entry(host)) as remote:
        for _ in range(3):
            with remote.stream(f"echo go; head -c {size} /dev/zero; echo bad >&2; exit 2") as stream:
                lines = stream.lines(20)
                assert next(lines) == b"go"
                assert copied(stream, size) == bytes(size)
                assert list(lines) == [b"bad", b"\x1b[33mWelcome\x1b[0m"]  # of its standard error
                assert stream.status() == 2


def test_what_keeps_a_script_from_starting_is_told(simhost: Start, entry: Entry) -> None:
    no_bash = pytest.raises(EnvironmentUnfit, match="there is no bash on the PATH of .*not found")
    with Remote(entry(simhost(bash=False, login_shell="sh"))) as remote, no_bash:
        said(remote, "echo never")


def test_a_login_shell_that_has_ended_before_it_gets_its_script(simhost: Start, entry: Entry) -> None:
    no_bash = pytest.raises(EnvironmentUnfit, match="there is no bash on the PATH of .*not found")
    with Remote(entry(simhost(bash=False, login_shell="sh"))) as remote, remote.shell() as stream, no_bash:
        time.sleep(0.5)
        stream.hand_over("echo never\n" * 100_000)
        list(stream.lines(20))


def test_a_question_on_standard_error_is_told(simhost: Start, entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collect_remote.ssh.shell.BEGIN_S", 1.0)
    asks = "printf 'Which project? ' >&2; sleep 20\n"
    told = pytest.raises(UnreachableError, match=r"are not over after 1 s: .*Which project\?")
    with Remote(entry(simhost(rc=asks))) as remote, told:
        said(remote, "echo never")


def test_bytes_are_not_touched_either_way(simhost: Start, entry: Entry) -> None:
    every = bytes(range(256)) * (12 * 1024)  # more than a window and than a pipe holds
    with Remote(entry(simhost())) as remote, remote.stream(f"exec head -c {len(every)}") as stream:
        sender = threading.Thread(target=stream.send, args=(every,))
        sender.start()
        got = copied(stream, len(every))
        sender.join()
        assert got == every
        assert stream.status() == 0


def test_what_was_sent_before_closing_arrives(simhost: Start, entry: Entry) -> None:
    host = simhost()
    with Remote(entry(host)) as remote, remote.stream("echo go; read -r word; echo $word > told") as stream:
        assert next(stream.lines(20)) == b"go"
        stream.send(b"ok\n")
        stream.close()
        until(lambda: (host.home / "told").exists() and (host.home / "told").read_text() == "ok\n")


def test_one_login_carries_everything_and_tells_how_it_came_about(simhost: Start, entry: Entry, transport: str) -> None:
    host = simhost()
    with Remote(entry(host)) as remote:
        login = remote.login
        assert login is not None
        assert login.first_output_s is None
        for number in range(5):
            assert said(remote, f"echo {number}") == [b"%d" % number]
        with remote.stream("sleep 20") as silent, remote.stream("echo beside") as beside:
            assert list(beside.lines(20)) == [b"beside"]
            del silent
        assert login is remote.login
    assert host.log.read_text().count("Accepted publickey") in (0, 1)  # asyncssh writes none
    assert login.transport == transport
    assert 0 < login.total_s < 20
    assert 0 < (login.first_output_s or 0) < 20
    assert login.cipher == "aes128-gcm@openssh.com"
    assert login.server
    if transport == "paramiko":
        (step,) = login.steps
        assert min(step.connect_s, step.handshake_s, step.authenticate_s) > 0


@pytest.mark.parametrize("way", ["direct", "jump", "proxy"])
def test_nothing_is_left_here(simhost: Start, entry: Entry, temporary: Path, client_home: Path, way: str) -> None:
    host = simhost()
    if way == "jump":
        gate = simhost("gate")
        (client_home / ".ssh" / "config").write_text(
            f"Host gate\n    HostName {gate.address}\n    Port {gate.port}\n    IdentityFile {gate.identity_file}\n"
            f"    UserKnownHostsFile {gate.known_hosts}\nHost 127.0.0.1\n    ProxyJump gate\n"
        )
    elif way == "proxy":
        (client_home / ".ssh" / "config").write_text(PROXY)
    threads, open_files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        with Remote(entry(host)) as remote:
            assert said(remote, "echo hello") == [b"hello"]
            assert remote.is_open
        assert not remote.is_open
    assert list(temporary.iterdir()) == []
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == open_files
    until(lambda: not host.processes())


def test_silence_and_an_end_that_does_not_come(simhost: Start, entry: Entry) -> None:
    with Remote(entry(simhost())) as remote:
        with remote.stream("sleep 20") as stream, pytest.raises(UnreachableError, match=r"no sign of life for 0\.3 s"):
            list(stream.lines(0.3))
        loop = "while echo tick; do sleep 0.05; done"
        with remote.stream(loop) as stream, pytest.raises(UnreachableError, match=r"not over after 0\.4 s"):
            list(stream.lines(5, within=0.4))
        assert said(remote, "echo hello") == [b"hello"]


def test_a_script_that_takes_no_input(simhost: Start, entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collect_remote.ssh.stream.SEND_TIMEOUT_S", 0.5)
    takes_nothing = pytest.raises(UnreachableError, match=r"takes nothing for 0\.5 s")
    with Remote(entry(simhost())) as remote, remote.stream("sleep 20") as stream, takes_nothing:
        for _ in range(64):
            stream.send(bytes(MIB))


def test_a_stream_that_ends_by_itself_is_not_asked_for_again(simhost: Start, entry: Entry) -> None:
    early = pytest.raises(TransferError, match="7 bytes early")
    with Remote(entry(simhost())) as remote, remote.stream("printf abc") as stream, early:
        copied(stream, 10)


def test_a_file_that_takes_no_more_is_told_as_that(simhost: Start, entry: Entry) -> None:
    with (
        Remote(entry(simhost())) as remote,
        remote.stream(f"echo go; head -c {MIB} /dev/zero; echo end") as stream,
        open("/dev/full", "wb", buffering=0) as full,
    ):
        assert next(stream.lines(20)) == b"go"
        with pytest.raises(OSError, match="No space left"):
            list(stream.copy(full.fileno(), MIB, 20))


def test_a_file_gets_its_bytes_and_no_others(simhost: Start, entry: Entry, tmp_path: Path) -> None:
    """However they come, and whatever comes before, between and after."""
    sizes = [1, 70_000, 5, 3 * MIB, 300]
    script = "".join(f"echo {size}; head -c {size} /dev/urandom | tee -a sent; sleep 0.1; " for size in sizes)
    host, files = simhost(), [tmp_path / str(number) for number in range(len(sizes))]
    with Remote(entry(host)) as remote, remote.stream(script + "printf end") as stream:
        lines = stream.lines(20)
        for file, size in zip(files, sizes, strict=True):
            assert next(lines) == str(size).encode()
            file.write_bytes(copied(stream, size))
        assert list(lines) == [b"end"]
    assert b"".join(file.read_bytes() for file in files) == (host.home / "sent").read_bytes()


@pytest.mark.parametrize("read", ["lines", "copy"])
def test_a_lost_connection_is_never_an_end(simhost: Start, entry: Entry, read: str, tmp_path: Path) -> None:
    host = simhost()
    with Link(host.address, host.port) as link, (tmp_path / "file").open("w+b", buffering=0) as file:
        with Remote(entry(host, port=link.port, host_key=host.host_key)) as remote:
            stream = remote.stream("echo begun; sleep 30")
            reader: Iterator[object] = stream.lines(20) if read == "lines" else stream.copy(file.fileno(), 100, 20)
            assert next(reader) == (b"begun" if read == "lines" else None)
            link.cut()
            with pytest.raises(UnreachableError):
                next(reader)
            assert os.pread(file.fileno(), 100, 0) == (b"" if read == "lines" else b"begun\n")
            assert stream.status() == -1
            stream.close()
            until(lambda: not remote.is_open)
            with pytest.raises(UnreachableError, match="cannot start a command|connection broke"):
                said(remote, "echo hello")
            Tenacity(remote, 20).recover(UnreachableError("cut"))
            assert said(remote, "echo hello") == [b"hello"]
        assert link.connections == 2


@pytest.mark.parametrize("size", [30, 1500, 3000])
def test_a_login_that_is_cut_off_is_tried_again(simhost: Start, entry: Entry, size: int) -> None:
    """In the banner, while keys are agreed on, while we log in."""
    host = simhost()
    with Link(host.address, host.port) as link:
        link.cut_after(size)
        with Remote(entry(host, port=link.port)) as remote:
            assert said(remote, "echo hello") == [b"hello"]
        assert (link.cuts, link.connections) == (1, 2)


def test_a_peer_that_is_gone_without_a_word(simhost: Start, entry: Entry, client_home: Path) -> None:
    (client_home / ".ssh" / "config").write_text("Host *\n    ServerAliveInterval 1\n    ServerAliveCountMax 1\n")
    host = simhost()
    with Link(host.address, host.port) as link, Remote(entry(host, port=link.port)) as remote:
        stream = remote.stream("echo begun; sleep 30")
        lines = stream.lines(3)
        assert next(lines) == b"begun"
        link.stall()
        with pytest.raises(UnreachableError):
            next(lines)
        began = time.monotonic()
        stream.close()
        remote.close()
        assert time.monotonic() - began < 8


def test_a_firewall_that_forgets_idle_connections(simhost: Start, entry: Entry, client_home: Path) -> None:
    (client_home / ".ssh" / "config").write_text("Host *\n    ServerAliveInterval 1\n    ServerAliveCountMax 9\n")
    host = simhost()
    with Link(host.address, host.port, idle_s=2.5) as link, Remote(entry(host, port=link.port)) as remote:
        assert said(remote, "sleep 4; echo still here") == [b"still here"]
        assert link.connections == 1


@needs_sshd
@pytest.mark.parametrize(("limit", "mib"), [("1M", 6), ("4M", 40)])
def test_a_server_that_changes_keys_all_the_time(simhost: Start, entry: Entry, limit: str, mib: int) -> None:
    host, size = simhost(server="openssh", sshd={"RekeyLimit": limit}), mib * MIB
    with Remote(entry(host)) as remote:
        for _ in range(2):
            with remote.stream(f"exec head -c {size} /dev/zero") as stream:
                assert pulled(stream, size) == hashlib.sha256(bytes(size)).hexdigest()
                assert stream.status() == 0
        with remote.stream(f"head -c {size} | sha256sum") as stream:
            stream.send(bytes(size))
            assert next(stream.lines(30)).split()[0] == hashlib.sha256(bytes(size)).hexdigest().encode()


@pytest.mark.slow
def test_more_than_two_gibibytes(simhost: Start, entry: Entry) -> None:
    host, size = simhost(), 2**31 + 12345
    with (host.home / "large").open("wb") as file:
        file.truncate(size)
        file.seek(size - 5)
        file.write(b"there")
    digest = hashlib.sha256()
    with Remote(entry(host)) as remote, remote.stream("exec cat large") as stream:
        got = pulled(stream, size)
        assert stream.status() == 0
    with (host.home / "large").open("rb") as file:
        while block := file.read(MIB):
            digest.update(block)
    assert got == digest.hexdigest()


def pulled(stream: Stream, size: int) -> str:
    """The digest of so many bytes of a stream."""
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in stream.copy(file.fileno(), size, 30):
            pass
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def copied(stream: Stream, size: int) -> bytes:
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in stream.copy(file.fileno(), size, 20):
            pass
        return os.pread(file.fileno(), size + 1, 0)


def test_the_window_grows_with_the_distance(simhost: Start, entry: Entry, transport: str) -> None:
    if transport == "openssh":
        pytest.skip("ssh's window cannot be chosen")
    from collect_remote.ssh.transports.by_paramiko import ParamikoConnection

    host, windows = simhost(), {}
    for delay_s in (0.0, 0.012, 0.05):
        with Link(host.address, host.port, delay_s=delay_s) as link, Remote(entry(host, port=link.port)) as remote:
            said(remote, "echo hello")
            connection = remote._connection
            assert isinstance(connection, ParamikoConnection)
            windows[delay_s] = connection._window() // MIB
    assert windows[0.05] == 16
    assert windows[0.012] in (8, 16)  # a busy machine makes it look farther away
    assert windows[0.0] <= windows[0.012]


SURVIVE = """
import sys, time
from pathlib import Path
from collect_remote.inventory import load
from collect_remote.ssh.remote import Remote
with Remote(load(Path(sys.argv[1])).host("ascend01")) as remote:
    with remote.stream("echo begun; read -r word; echo $word") as stream:
        lines = stream.lines(20)
        try:
            print(next(lines).decode(), flush=True)
            time.sleep(20)
        except KeyboardInterrupt:
            stream.send(b"still here\\n")
            print(next(lines).decode(), flush=True)
"""


def test_new_key_exchanges_are_known(
    simhost: Start, entry: Entry, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    kex = "mlkem768x25519-sha256"
    if transport != "paramiko" or kex not in paramiko.Transport._preferred_kex:
        pytest.skip("this paramiko, or ssh, does not know it")
    caplog.set_level("DEBUG", "paramiko.transport")
    with Remote(entry(simhost(server="asyncssh"))) as remote:
        assert said(remote, "echo hello") == [b"hello"]
    assert f"Kex: {kex}" in caplog.messages


LEAVE_IT_OPEN = """
import sys, time
from pathlib import Path
from collect_remote.inventory import load
from collect_remote.ssh.remote import Remote
remote = Remote(load(Path(sys.argv[1])).host("ascend01"))
remote.open()
stream = remote.stream("echo begun; sleep 60")
print(next(stream.lines(20)).decode(), flush=True)
time.sleep(60)
"""


def test_a_killed_controller_leaves_no_connection(
    simhost: Start, entry: Entry, tmp_path: Path, temporary: Path, transport: str
) -> None:
    host = simhost()
    entry(host)
    with Link(host.address, host.port) as link:
        entry(host, port=link.port)
        process = subprocess.Popen(
            [sys.executable, "-c", LEAVE_IT_OPEN, str(tmp_path / "inventory.yaml")],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
        )
        assert process.stdout is not None
        with process.stdout as out:
            assert out.readline() == "begun\n"
            assert link.alive == 1
            assert len(list(temporary.iterdir())) == (transport == "openssh")
            process.send_signal(signal.SIGKILL)
            process.wait()
        until(lambda: link.alive == 0)
        until(lambda: not list(temporary.iterdir()))


@pytest.mark.parametrize("config", ["", PROXY], ids=["direct", "proxy"])
def test_a_control_c_does_not_reach_the_connection(
    simhost: Start, entry: Entry, tmp_path: Path, client_home: Path, config: str
) -> None:
    """The terminal sends it to its whole foreground group; the run is then stopped over the connection."""
    (client_home / ".ssh" / "config").write_text(config)
    entry(simhost())
    process = subprocess.Popen(
        [sys.executable, "-c", SURVIVE, str(tmp_path / "inventory.yaml")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout as out:
        assert out.readline() == "begun\n"
        os.killpg(process.pid, signal.SIGINT)
        assert out.readline() == "still here\n"
        assert process.wait(20) == 0
