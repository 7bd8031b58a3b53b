"""The simulated host as an SSH server: sessions, processes, connections; every test on both servers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import paramiko
import pytest

from sessions import connected, needs_sshd, run, until
from simhost import SimHost

Start = Callable[..., SimHost]


@pytest.fixture(params=[pytest.param("openssh", marks=needs_sshd), "asyncssh"])
def server(request: pytest.FixtureRequest) -> str:
    """The kind of server."""
    return str(request.param)


def test_a_session_has_an_environment_of_its_own(simhost: Start, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_TESTER", "1")
    host = simhost(server=server, env={"ASCEND_RT_VISIBLE_DEVICES": "2,3"}, umask=0o002)
    with connected(host) as client:
        _, out, err = run(client, "env; echo cwd=$PWD; echo umask=$(umask)")
        env = dict(line.split("=", 1) for line in out.decode().splitlines())
        assert err == b""
        assert env["HOME"] == env["cwd"] == str(host.home)
        assert env["ASCEND_RT_VISIBLE_DEVICES"] == "2,3"
        assert env["umask"] == "0002"
        assert "OF_THE_TESTER" not in env
        assert "Ascend" not in env["PATH"]
        host.set_state(env={}, umask=0o022)
        assert run(client, "umask; echo $ASCEND_RT_VISIBLE_DEVICES") == (0, b"0022\n\n", b"")


def test_bytes_status_and_streams_pass_untouched(simhost: Start, server: str) -> None:
    data = bytes(range(256)) * (3 << 12)  # 3 MiB
    with connected(simhost(server=server)) as client:
        assert run(client, "cat", data) == (0, data, b"")
        assert run(client, "cat >&2; exit 7", data) == (7, b"", data)
        assert run(client, "exit 255") == (255, b"", b"")


def test_input_that_a_command_does_not_read_stops_nobody(simhost: Start, server: str) -> None:
    with connected(simhost(server=server)) as client:
        assert run(client, "exec <&-; sleep 0.2; echo done", bytes(4 << 20)) == (0, b"done\n", b"")


def test_stdin_can_end_while_output_goes_on(simhost: Start, server: str) -> None:
    with connected(simhost(server=server)) as client:
        assert run(client, "wc -c; sleep 0.2; echo late", b"12345") == (0, b"5\nlate\n", b"")


def test_a_command_killed_by_a_signal_has_no_status(simhost: Start, server: str) -> None:
    with connected(simhost(server=server)) as client:
        assert run(client, "kill -KILL $$") == (-1, b"", b"")


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh on this machine")
def test_the_ssh_program_connects_directly_and_through_a_jump_host(simhost: Start, server: str, tmp_path: Path) -> None:
    jump, target = simhost("jump", server=server), simhost("target", server=server)
    config = tmp_path / "config"
    config.write_text(
        "".join(
            f"Host {host.name}\n HostName {host.address}\n Port {host.port}\n User {host.user}\n"
            f" IdentityFile {host.identity_file}\n UserKnownHostsFile {host.known_hosts}\n"
            for host in (jump, target)
        )
        + "Host *\n IdentitiesOnly yes\n BatchMode yes\n GlobalKnownHostsFile /dev/null\n"
    )
    for options in ([], ["-J", "jump"]):
        command = ["ssh", "-F", config, *options, "target", "echo $SIMHOST; exit 3"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert (done.returncode, done.stdout) == (3, f"{target.dir}\n"), done.stderr
    assert not jump.processes()


def test_paramiko_goes_through_a_jump_host(simhost: Start, server: str) -> None:
    jump, target = simhost("jump", server=server), simhost("target", server=server)
    with connected(jump) as outer:
        transport = outer.get_transport()
        assert transport is not None
        channel = transport.open_channel("direct-tcpip", (target.address, target.port), ("127.0.0.1", 0))
        with connected(target, channel) as inner:
            assert run(inner, "echo $SIMHOST")[1].decode().strip() == str(target.dir)


def test_a_process_that_left_its_session_survives_the_connection_but_not_the_host(simhost: Start, server: str) -> None:
    host, other = simhost(server=server), simhost("other", server=server)
    with connected(host) as client:
        run(client, "setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $! > pid")
    pid = int((host.home / "pid").read_text())
    assert host.processes() == [pid]
    assert other.processes() == []
    host.stop()
    assert not Path(f"/proc/{pid}/exe").exists()


def test_a_cut_connection_leaves_the_command_alone(simhost: Start, server: str) -> None:
    host = simhost(server=server)
    with connected(host) as client:
        _, stdout, _ = client.exec_command("echo $$; exec sleep 300")
        pid = int(stdout.readline())
        host.drop_connections()
        transport = client.get_transport()
        assert transport is not None
        until(lambda: not transport.is_active())
        assert host.processes() == [pid]
    with connected(host) as again:
        assert run(again, "echo back")[1] == b"back\n"


def test_a_refused_key(simhost: Start, server: str) -> None:
    host = simhost(server=server, accept_key=False)
    for _ in range(3):
        with pytest.raises(paramiko.AuthenticationException), connected(host):
            pass
    host.set_state(accept_key=True)
    with connected(host) as client:
        assert run(client, "true")[0] == 0


def test_another_host_key_than_announced(simhost: Start, server: str) -> None:
    host = simhost(server=server, announce_own_key=False)
    assert host.host_key in host.known_hosts.read_text()
    with pytest.raises(paramiko.BadHostKeyException), connected(host):
        pass


def test_login_noise_comes_before_the_command_on_both_streams(simhost: Start, server: str) -> None:
    host = simhost(server=server, login_noise="\x1b[33mWelcome to 'the' lab\x1b[0m\nquota 93%")
    with connected(host) as client:
        noise = b"\x1b[33mWelcome to 'the' lab\x1b[0m\nquota 93%\n"
        assert run(client, "cat; exit 4", b"\0data") == (4, noise + b"\0data", noise)
        host.set_state(login_noise="")
        assert run(client, "cat", b"data") == (0, b"data", b"")


def test_hosts_differ_and_one_comes_back_with_its_keys(simhost: Start, server: str) -> None:
    one, two = simhost(server=server), simhost("ascend02", server=server)
    assert (one.host_key, one.port) != (two.host_key, two.port)
    assert one.host_key != two.host_key
    entry = one.inventory_entry()
    one.stop()
    one.start()
    assert one.inventory_entry() == entry
    with connected(one) as client:
        assert run(client, "true")[0] == 0


def test_stop_ends_what_ignores_every_polite_signal(simhost: Start, server: str) -> None:
    host = simhost(server=server)
    with connected(host) as client:
        run(client, "trap '' HUP INT TERM; setsid sh -c 'sleep 300; true' </dev/null >/dev/null 2>&1 &")
        until(lambda: len(host.processes()) == 2)
        os.kill(host.processes()[0], signal.SIGTERM)
        host.stop()
    assert host.processes() == []


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small file system needs root")
def test_a_small_disk_is_full_when_it_is_full(simhost: Start, server: str) -> None:
    try:
        host = simhost(server=server, disk_mb=2)
    except PermissionError as error:
        pytest.skip(str(error))
    with connected(host) as client:
        status, _, err = run(client, f"head -c 3000000 /dev/zero > {host.workdir}/big")
        assert status != 0
        assert b"No space left" in err
    host.stop()
    assert not list(host.workdir.iterdir())
