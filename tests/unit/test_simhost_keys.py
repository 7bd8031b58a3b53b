"""The SSH server of a simulated host: keys and certificates of either side, settings, its banner, its end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import paramiko
import pytest

from sessions import connected, needs_sshd, run, until
from simhost import SimHost, keys

Start = Callable[..., SimHost]


def by_ssh(host: SimHost, *options: str, command: str = "echo hello", agent: str = "") -> tuple[int, str, str]:
    """(status, stdout, stderr) of the ssh program, strict, with these options and none of the user's."""
    environment = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}
    done = subprocess.run(
        [
            *("ssh", "-F", "/dev/null", "-o", "BatchMode=yes", "-p", str(host.port), *options),
            *("-o", f"UserKnownHostsFile={host.known_hosts}", f"{host.user}@{host.address}", command),
        ],
        env={**environment, **({"SSH_AUTH_SOCK": agent} if agent else {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("server", [pytest.param("openssh", marks=needs_sshd), "asyncssh"])
@pytest.mark.parametrize(("kind", "said"), [("rsa", "ssh-rsa "), ("ecdsa", "ecdsa-sha2-nistp256 ")])
def test_keys_of_every_kind_on_both_sides(simhost: Start, tmp_path: Path, server: str, kind: str, said: str) -> None:
    public = keys.stored(tmp_path / "id", keys.generate(kind))
    host = simhost(server=server, host_key_kind=kind, accept_key=False, authorized_keys=[public])
    assert public.startswith(said)
    assert host.host_key.startswith(said)
    with pytest.raises(paramiko.AuthenticationException), connected(host):
        pass
    with connected(host, key_filename=str(tmp_path / "id")) as client:
        assert run(client, "echo hello")[1] == b"hello\n"


def test_an_encrypted_key(simhost: Start, tmp_path: Path) -> None:
    words = "open sesame"
    pair = keys.generate(passphrase=words)
    host = simhost(authorized_keys=[keys.stored(tmp_path / "id", pair)], accept_key=False)
    with pytest.raises(paramiko.PasswordRequiredException), connected(host, key_filename=str(tmp_path / "id")):
        pass
    with connected(host, key_filename=str(tmp_path / "id"), passphrase=words) as client:
        assert run(client, "echo hello")[1] == b"hello\n"


@needs_sshd
def test_certificates_of_the_user_and_of_the_host(simhost: Start, tmp_path: Path) -> None:
    authority, key = tmp_path / "ca", tmp_path / "id"
    trusted = keys.stored(authority, keys.generate())
    keys.stored(key, keys.generate())
    host = simhost(server="openssh", accept_key=False, sshd={"TrustedUserCAKeys": f"{authority}.pub"})
    assert by_ssh(host, "-i", str(key))[0] == 255
    keys.certify(authority, key, principals=host.user)
    assert by_ssh(host, "-i", str(key))[:2] == (0, "hello\n")
    with keys.agent(key) as agent:
        key.unlink()
        assert by_ssh(host, agent=agent)[:2] == (0, "hello\n")
    assert not Path(agent).exists()
    certificate = keys.certify(authority, host.host_key_file, principals=host.address, of_host=True)
    host.set_state(accept_key=True, sshd={"HostCertificate": str(certificate)})
    host.restart_server()
    host.known_hosts.write_text(f"@cert-authority {host.address} {trusted}\n")
    told = by_ssh(host, "-i", str(host.identity_file), "-o", f"HostKeyAlias={host.address}")
    assert told[:2] == (0, "hello\n"), told


def test_an_agent_offers_its_keys(simhost: Start, tmp_path: Path) -> None:
    host = simhost()
    with keys.agent() as agent:
        assert by_ssh(host, agent=agent)[0] == 255
    with keys.agent(host.identity_file) as agent:
        assert by_ssh(host, agent=agent)[:2] == (0, "hello\n")


@needs_sshd
def test_settings_of_sshd(simhost: Start) -> None:
    host = simhost(server="openssh", sshd={"MaxSessions": "1", "RekeyLimit": "1M"}, banner="Keep out!\n")
    with connected(host) as client:
        transport = client.get_transport()
        assert transport is not None
        assert transport.get_banner() == b"Keep out!\n"
        with transport.open_session() as only:
            with pytest.raises(paramiko.ChannelException):
                transport.open_session()
            only.exec_command("head -c 3000000 /dev/zero")
            assert only.makefile("rb").read() == bytes(3000000)
        assert transport.session_id != transport.H  # that of the first key exchange
    host.set_state(sshd={"Nonsense": "1"})
    with pytest.raises(RuntimeError, match="Nonsense"):
        host.restart_server()


def test_the_other_server_has_a_banner_and_no_such_settings(simhost: Start) -> None:
    with connected(simhost(server="asyncssh", banner="Keep out!\n")) as client:
        transport = client.get_transport()
        assert transport is not None
        assert transport.get_banner() == b"Keep out!\n"
    with pytest.raises(ValueError, match="RekeyLimit"):
        simhost("ascend02", server="asyncssh", sshd={"RekeyLimit": "1M"})


@pytest.mark.parametrize("server", [pytest.param("openssh", marks=needs_sshd), "asyncssh"])
def test_a_server_that_goes_and_comes_back(simhost: Start, server: str) -> None:
    host = simhost(server=server)
    entry = host.inventory_entry()
    with connected(host) as client:
        run(client, "setsid sleep 300 </dev/null >/dev/null 2>&1 &")
        until(lambda: len(host.processes()) == 1)
        host.restart_server()
        transport = client.get_transport()
        assert transport is not None
        until(lambda: not transport.is_active())
    with connected(host) as client:
        assert run(client, "echo back")[1] == b"back\n"
    assert len(host.processes()) == 1
    host.kill_server()
    with pytest.raises(OSError), connected(host):
        pass
    host.restart_server()
    assert host.inventory_entry() == entry
    with connected(host) as client:
        assert run(client, "echo back")[1] == b"back\n"
    assert len(host.processes()) == 1
