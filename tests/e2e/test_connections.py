"""Reaching a host as `ssh` would, over both transports, and the one sentence when it cannot be reached."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collect_remote.inventory import load
from collect_remote.ssh.remote import Remote
from harness import COLLECT_REMOTE, Tool, one_error
from sessions import needs_sshd
from simhost import SimHost, keys
from simhost.link import Link
from simhost.strangers import silent_server, web_server

Start = Callable[..., SimHost]
Clean = Callable[..., None]
DRY_RUN = ("--host", "ascend01", "--model", "llama", "--yes", "--dry-run")
WORDS = "open sesame"
CARRY = Path(__file__).parents[1] / "carry.py"


class Reach:
    """Inventory entries over one transport, and what comes of using them."""

    def __init__(self, tool: Tool, transport: str, home: Path) -> None:
        self.tool, self.transport, self.home = tool, transport, home

    def entry(self, host: SimHost | None = None, **keys: Any) -> None:
        """The host ascend01 of the inventory, as `host` or as `keys` say; None takes a key out."""
        said = {**(host.inventory_entry() if host else {}), "transport": self.transport, **keys}
        self.tool.inventory(entries={"ascend01": {key: value for key, value in said.items() if value is not None}})

    def config(self, text: str) -> None:
        (self.home / ".ssh" / "config").write_text(text)

    def good(self) -> None:
        """The host is reached: its plan is made."""
        outcome = self.tool.collect("--dry-run")
        assert outcome.status == 0, outcome.err
        assert outcome.err.count("not honoured") == 0

    def bad(self, message: str, remedy: str) -> dict[str, Any]:
        outcome = self.tool.collect("--dry-run")
        assert "Traceback" not in outcome.err
        return one_error(outcome, 3, message=message, remedy=remedy)


@pytest.fixture(params=["paramiko", "openssh"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reach(tool: Tool, transport: str, client_home: Path) -> Reach:
    return Reach(tool, transport, client_home)


# --- nobody there, or somebody else -----------------------------------------------------------------------------------


def test_nobody_listens(reach: Reach, assert_clean: Clean) -> None:
    reach.entry(address="127.0.0.1", port=1)
    reach.bad("connection refused", "port")
    assert_clean()


def test_a_name_that_does_not_resolve(reach: Reach) -> None:
    reach.entry(address="no-such-host.invalid")
    reach.bad("does not resolve", "address")


def test_a_server_that_says_nothing(reach: Reach) -> None:
    reach.config("Host *\n    ConnectTimeout 1\n")
    with silent_server() as port:
        reach.entry(address="127.0.0.1", port=port)
        reach.bad("accepted the connection but sent no SSH banner in 1 s", "sshd listens there")


def test_a_server_that_is_none(reach: Reach) -> None:
    with web_server() as port:
        reach.entry(address="127.0.0.1", port=port)
        reach.bad("is not an SSH server: it said 'HTTP/1.1 400 Bad Request'", "sshd listens there")


@pytest.fixture
def crowd() -> Iterator[Callable[[SimHost], socket.socket]]:
    """Somebody who connects and does not log in."""
    there: list[socket.socket] = []

    def stand(host: SimHost) -> socket.socket:
        there.append(socket.create_connection((host.address, host.port)))
        there[-1].recv(100)
        return there[-1]

    yield stand
    for sock in there:
        sock.close()


@needs_sshd
def test_a_crowd_at_the_door_that_goes(host: Start, reach: Reach, crowd: Callable[[SimHost], socket.socket]) -> None:
    ascend = host(server="openssh", sshd={"MaxStartups": "1"})
    reach.entry(ascend)
    first = crowd(ascend)
    leaving = threading.Timer(1.5, first.close)
    leaving.start()
    reach.good()
    leaving.join()


@needs_sshd
def test_a_crowd_at_the_door_that_stays(host: Start, reach: Reach, crowd: Callable[[SimHost], socket.socket]) -> None:
    ascend = host(server="openssh", sshd={"MaxStartups": "1"})
    reach.entry(ascend)
    crowd(ascend)
    reach.bad("closed it without an SSH banner|turned us away", "MaxStartups")


# --- host keys --------------------------------------------------------------------------------------------------------


def test_an_unknown_host_is_refused_with_its_fingerprint(host: Start, reach: Reach, client_home: Path) -> None:
    reach.entry(host(), host_key=None)
    reach.bad("is not a known host: it shows ssh-ed25519 SHA256:", "host_key")
    assert not (client_home / ".ssh" / "known_hosts").exists()


def test_a_changed_key_is_refused_with_file_and_line(host: Start, reach: Reach, client_home: Path) -> None:
    ascend = host(announce_own_key=False)
    known = client_home / ".ssh" / "known_hosts"
    right_for_another_port = f"{ascend.address} {ascend._host_key}\n"
    known.write_text(right_for_another_port + ascend.known_hosts.read_text())
    reach.entry(ascend, host_key=None)
    reach.bad(r"shows the host key ssh-ed25519 SHA256:\S+, but \S*known_hosts:2 says ssh-ed25519 SHA256:", "keygen -R")
    reach.config("Host *\n    StrictHostKeyChecking no\n")
    reach.bad("known_hosts:2 says", "keygen -R")


def test_a_changed_key_that_is_pinned(host: Start, reach: Reach) -> None:
    reach.entry(host(announce_own_key=False))
    reach.bad("host_key in the inventory says ssh-ed25519 SHA256:", "pin the new key")


def test_the_key_of_this_port_will_do(host: Start, reach: Reach, client_home: Path) -> None:
    ascend = host()
    wrong_for_another_port = f"{ascend.address} {ascend._other_key}\n"
    (client_home / ".ssh" / "known_hosts").write_text(wrong_for_another_port + ascend.known_hosts.read_text())
    reach.entry(ascend, host_key=None)
    reach.good()


def test_a_new_host_is_accepted_where_ssh_config_says_so(host: Start, reach: Reach, client_home: Path) -> None:
    ascend = host()
    reach.config("Host *\n    StrictHostKeyChecking accept-new\n    HostKeyAlias the-npu\n")
    reach.entry(ascend, host_key=None)
    reach.good()
    assert (client_home / ".ssh" / "known_hosts").read_text().split()[:3] == ["the-npu", *ascend.host_key.split()]
    reach.config("Host *\n    HostKeyAlias the-npu\n")
    reach.good()


@needs_sshd
def test_a_host_certificate(host: Start, reach: Reach, tmp_path: Path, client_home: Path) -> None:
    ascend, trusted = host(server="openssh"), keys.stored(tmp_path / "ca", keys.generate())
    certificate = keys.certify(tmp_path / "ca", ascend.host_key_file, principals="npu", of_host=True)
    ascend.set_state(sshd={"HostCertificate": str(certificate)})
    ascend.restart_server()
    (client_home / ".ssh" / "known_hosts").write_text(f"@cert-authority npu {trusted}\n")
    reach.config("Host *\n    HostKeyAlias npu\n")
    reach.entry(ascend, host_key=None)
    if reach.transport == "openssh":
        reach.good()
    else:
        reach.bad("known by the certificate authority of .*known_hosts:1 alone", "transport: openssh")


# --- the way there ----------------------------------------------------------------------------------------------------


def entry_of(host: SimHost, alias: str, *lines: str) -> str:
    """An entry of ssh_config."""
    settings = [
        *(f"HostName {host.address}", f"Port {host.port}", f"User {host.user}"),
        *(f"IdentityFile {host.identity_file}", f"UserKnownHostsFile {host.known_hosts}", *lines),
    ]
    return f"Host {alias}\n" + "".join(f"    {setting}\n" for setting in settings)


def logins(host: SimHost) -> int:
    return host.log.read_text().count("Accepted publickey")


@needs_sshd
def test_jump_hosts_as_ssh_config_says(host: Start, reach: Reach, client_home: Path) -> None:
    ascend, outer, inner = host(server="openssh"), host("outer", server="openssh"), host("inner", server="openssh")
    (client_home / ".ssh" / "gates").write_text(
        entry_of(outer, "outer", "ProxyJump none") + entry_of(inner, "inner", "ProxyJump outer")
    )
    reach.config(
        f"Include {client_home}/.ssh/gates\n"
        + entry_of(ascend, "npu", "ProxyJump inner")
        + entry_of(ascend, "npu2", "ProxyJump none")
        + "Host *\n    ProxyJump inner\n"
    )
    reach.entry(address="npu")
    reach.good()
    assert (logins(outer), logins(inner), logins(ascend)) == (1, 1, 1)
    reach.entry(address="npu2")
    reach.good()
    assert (logins(outer), logins(inner), logins(ascend)) == (1, 1, 2)
    reach.entry(address="npu2", jump="outer")
    reach.good()
    assert (logins(outer), logins(inner), logins(ascend)) == (2, 1, 3)


def test_a_jump_host_that_cannot_reach_it(host: Start, reach: Reach) -> None:
    gate = host("gate")
    reach.config(entry_of(gate, "gate"))
    reach.entry(address="127.0.0.1", port=1, jump="gate")
    reach.bad("the jump host cannot reach it", "jump")


def test_a_jump_host_that_refuses_us(host: Start, reach: Reach) -> None:
    ascend, gate = host(), host("gate", accept_key=False)
    reach.config(entry_of(gate, "gate", "IdentitiesOnly yes"))
    reach.entry(ascend, jump="gate")
    reach.bad(rf"gate \(\S+:{gate.port}\) refused the login", f"ssh -p {gate.port}")


def test_whoever_is_asked_by_a_jump_host_has_time_to_answer(tool: Tool, host: Start, client_home: Path) -> None:
    ascend, gate = host(), host("gate")
    reach = Reach(tool, "openssh", client_home)
    asks = entry_of(gate, "gate").replace(str(gate.known_hosts), "~/.ssh/asked")
    reach.config("Host *\n    ConnectTimeout 2\n" + asks)
    reach.entry(ascend, jump="gate")
    status, seen = on_a_terminal(tool, "yes", *DRY_RUN, question=rb"continue connecting", after_s=2.5)
    assert status == 0, seen
    assert gate.host_key.split()[1] in (client_home / ".ssh" / "asked").read_text()


@needs_sshd
def test_settings_that_only_ssh_can_work_out(host: Start, reach: Reach, client_home: Path) -> None:
    ascend = host(server="openssh")
    (client_home / ".ssh" / "more").write_text(
        f'Match originalhost npu exec "true"\n    HostName {ascend.address}\n    Port {ascend.port}\n'
        f"Match host {ascend.address} !exec false\n    IdentityFile {client_home}/none\n"
        f"    IdentityFile {ascend.identity_file}\n    UserKnownHostsFile {client_home}/none {ascend.known_hosts}\n"
        "    Ciphers aes256-ctr\n    KexAlgorithms ecdh-sha2-nistp256\n"
    )
    reach.config(f"Include {client_home}/.ssh/more\n")
    reach.entry(address="npu")
    reach.good()


def test_a_proxy_command_that_works_and_one_that_does_not(host: Start, reach: Reach, client_home: Path) -> None:
    ascend = host()
    reach.entry(ascend)
    reach.config(f"Host 127.0.0.1\n    ProxyCommand {sys.executable} {CARRY} %h %p\n")
    reach.good()
    reach.config("Host 127.0.0.1\n    ProxyCommand sh -c 'echo no way out >&2; exit 1'\n")
    reach.bad("ProxyCommand brings no connection: no way out", "try it: sh -c")


def test_a_configuration_that_ssh_rejects(host: Start, reach: Reach) -> None:
    reach.entry(host())
    reach.config("Host *\n    NoSuchKeyword yes\n")
    reach.bad("(?i)ssh rejects its configuration.*NoSuchKeyword", "mend")


def test_without_an_ssh_program_what_is_passed_over_is_named(
    host: Start, tool: Tool, client_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    reach = Reach(tool, "paramiko", client_home)
    reach.config('Include more\nMatch exec "true"\n    Port 1\nHost *\n    KexAlgorithms +x\n    LogLevel ERROR\n')
    reach.entry(host())
    outcome = tool.collect("--dry-run")
    assert outcome.status == 0, outcome.err
    (warning,) = [line for line in outcome.err.splitlines() if "not honoured" in line]
    assert warning.endswith("Include, Match exec, KexAlgorithms")
    Reach(tool, "openssh", client_home).entry(host("other"))
    reach.bad("needs the ssh program", "install")


# --- who we are -------------------------------------------------------------------------------------------------------


def test_a_refused_key(host: Start, reach: Reach, assert_clean: Clean) -> None:
    ascend = host(accept_key=False)
    reach.entry(ascend)
    reach.bad(f"refused the login.*{ascend.identity_file}", "ssh -p")
    assert_clean(ascend)


def test_an_identity_file_that_is_not_there(host: Start, reach: Reach) -> None:
    reach.entry(host(), identity_file="no_such_key")
    reach.bad("identity_file .*no_such_key cannot be read", "identity_file")


def test_the_agent_that_ssh_config_names(host: Start, reach: Reach) -> None:
    ascend = host()
    with keys.agent(ascend.identity_file) as agent:
        reach.config(f"Host *\n    IdentityAgent {agent}\n")
        reach.entry(ascend, identity_file=None)
        reach.good()
        reach.config("Host *\n    IdentityAgent none\n")
        reach.bad("refused the login", "name the user and the key")


@needs_sshd
def test_a_server_that_has_enough_of_so_many_keys(
    host: Start, reach: Reach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ascend = host(server="openssh", sshd={"MaxAuthTries": "2"})
    for number in range(3):
        keys.stored(tmp_path / f"other{number}", keys.generate())
    with keys.agent(*(tmp_path / f"other{number}" for number in range(3))) as agent:
        monkeypatch.setenv("SSH_AUTH_SOCK", agent)
        reach.entry(ascend, identity_file=None)
        reach.bad("refused the login", "name the user and the key")
        reach.entry(ascend)  # a key that is named is the only one
        reach.good()


@needs_sshd
@pytest.mark.parametrize("held", ["beside", "named", "agent", "key-in-agent"])
@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_a_user_certificate(
    host: Start, reach: Reach, tmp_path: Path, held: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, key = tmp_path / "ca", tmp_path / "id"
    keys.stored(authority, keys.generate())
    keys.stored(key, keys.generate(kind))
    ascend = host(server="openssh", accept_key=False, sshd={"TrustedUserCAKeys": f"{authority}.pub"})
    certificate = keys.certify(authority, key, principals=ascend.user)
    if held == "named":
        certificate = certificate.rename(tmp_path / "elsewhere.pub")
        reach.config(f"Host *\n    CertificateFile {certificate}\n")
    if held in ("beside", "named"):
        reach.entry(ascend, identity_file=str(key))
        reach.good()
        return
    with keys.agent(key) as agent:
        monkeypatch.setenv("SSH_AUTH_SOCK", agent)
        if held == "agent":
            key.unlink()
            certificate.unlink()
        reach.entry(ascend, identity_file=None if held == "agent" else str(key))
        reach.good()


def test_an_encrypted_key_where_nobody_can_be_asked(host: Start, reach: Reach, tmp_path: Path) -> None:
    public = keys.stored(tmp_path / "id", keys.generate(passphrase=WORDS))
    reach.entry(host(authorized_keys=[public], accept_key=False), identity_file=str(tmp_path / "id"))
    reach.bad("id is encrypted, and ssh-agent does not hold its key", "ssh-add|terminal")


ON_A_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


def test_a_passphrase_is_asked_for_once_on_a_terminal(host: Start, reach: Reach, tmp_path: Path) -> None:
    public = keys.stored(tmp_path / "id", keys.generate(passphrase=WORDS))
    ascend = host(authorized_keys=[public], accept_key=False)
    again = reach.transport == "paramiko"  # ssh itself keeps no key
    with Link(ascend.address, ascend.port) as link:
        reach.entry(ascend, identity_file=str(tmp_path / "id"), port=link.port)
        if again:
            link.cut_after(300_000)
        status, seen = on_a_terminal(reach.tool, WORDS, *(DRY_RUN[:-1] if again else DRY_RUN))
        assert link.connections == 1 + again
    assert status == 0, seen
    assert seen.count("assphrase for") == 1
    assert WORDS not in seen


def test_a_passphrase_that_is_none(host: Start, reach: Reach, tmp_path: Path) -> None:
    public = keys.stored(tmp_path / "id", keys.generate(passphrase=WORDS))
    reach.entry(host(authorized_keys=[public], accept_key=False), identity_file=str(tmp_path / "id"))
    status, seen = on_a_terminal(reach.tool, "", *DRY_RUN)
    assert status == 3, seen
    assert "refused the login" in seen
    assert "opens" in seen or "is encrypted" in seen


def on_a_terminal(
    tool: Tool, typed: str, *arguments: str, question: bytes = rb"assphrase for .*: $", after_s: float = 0.2
) -> tuple[int, str]:
    """The tool's exit status and what stood on the screen; `typed` is the answer to a `question`, given `after_s`."""
    process = subprocess.Popen(
        [sys.executable, "-c", ON_A_TERMINAL, *COLLECT_REMOTE, *arguments],
        cwd=tool.directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    seen = b""
    with process, process.stdin as keyboard, process.stdout as screen:
        while not re.search(question, seen, re.DOTALL):
            seen += (more := os.read(screen.fileno(), 4096))
            assert more, seen
        time.sleep(after_s)  # what is typed before echo is off is thrown away
        keyboard.write(typed.encode() + b"\n")
        keyboard.flush()
        while more := os.read(screen.fileno(), 4096):
            seen += more
    return process.returncode, seen.decode()


@needs_sshd
def test_a_second_factor_is_left_to_ssh_on_a_terminal(host: Start, reach: Reach) -> None:
    both = {"AuthenticationMethods": "publickey,password", "PasswordAuthentication": "yes"}
    reach.entry(host(server="openssh", sshd=both))
    if reach.transport == "paramiko":
        reach.bad("accepts the key .*, and asks for password as well", "transport: openssh")
    else:
        reach.bad("refused the login.*it accepts password", "terminal")


@needs_sshd
def test_a_server_that_takes_no_keys(host: Start, reach: Reach) -> None:
    reach.entry(host(server="openssh", sshd={"PubkeyAuthentication": "no", "PasswordAuthentication": "yes"}))
    reach.bad("refused the login.*it accepts password", "terminal")


# --- old servers ------------------------------------------------------------------------------------------------------


@needs_sshd
@pytest.mark.parametrize(
    ("sshd", "allow", "message"),
    [
        ({"HostKeyAlgorithms": "ssh-rsa"}, "HostKeyAlgorithms +ssh-rsa", "offers only ssh-rsa as host key"),
        (
            {"KexAlgorithms": "diffie-hellman-group14-sha1"},
            "KexAlgorithms +diffie-hellman-group14-sha1",
            "offers only diffie-hellman-group14-sha1",
        ),
        ({"Ciphers": "chacha20-poly1305@openssh.com"}, "Ciphers aes128-ctr", "offers only chacha20-poly1305"),
    ],
    ids=["host-key", "kex", "cipher"],
)
def test_what_the_two_sides_do_not_share_is_named(
    host: Start, reach: Reach, tmp_path: Path, sshd: dict[str, str], allow: str, message: str
) -> None:
    public = keys.stored(tmp_path / "id", keys.generate("rsa"))
    ascend = host(server="openssh", host_key_kind="rsa", authorized_keys=[public], sshd=sshd)
    reach.entry(ascend, identity_file=str(tmp_path / "id"))
    if "Ciphers" in sshd:
        reach.config(f"Host *\n    {allow}\n")
    reach.bad(message, "~/.ssh/config|transport: openssh|name the user")
    reach.config("Host *\n    Ciphers +aes128-ctr\n" if "Ciphers" in sshd else f"Host *\n    {allow}\n")
    if reach.transport == "openssh":
        reach.good()
    else:
        reach.bad(message, "transport: openssh")


@pytest.fixture
def before_sha2(tmp_path: Path) -> Iterator[int]:
    """The port of a server that knows RSA keys by SHA-1 alone; it accepts tmp_path/id and runs nothing."""
    import asyncssh

    for name in ("id", "server"):
        keys.stored(tmp_path / name, keys.generate("rsa"))

    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_host_keys=[str(tmp_path / "server")],
            authorized_client_keys=str(tmp_path / "id.pub"),
            signature_algs=["ssh-rsa"],
        )

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(listen(), loop).result(20)
    yield server.get_port()

    async def end() -> None:
        server.close()
        await server.wait_closed()

    asyncio.run_coroutine_threadsafe(end(), loop).result(20)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_an_rsa_key_at_a_server_that_knows_only_sha_1(reach: Reach, before_sha2: int, tmp_path: Path) -> None:
    reach.entry(address="127.0.0.1", port=before_sha2, identity_file=str(tmp_path / "id"))
    reach.config("Host *\n    StrictHostKeyChecking accept-new\n    HostKeyAlgorithms +ssh-rsa\n")
    reach.bad("refused the login.* ssh-rsa", r"PubkeyAcceptedAlgorithms \+ssh-rsa")
    if reach.transport == "openssh":
        reach.config(
            "Host *\n    StrictHostKeyChecking accept-new\n    HostKeyAlgorithms +ssh-rsa\n"
            "    PubkeyAcceptedAlgorithms +ssh-rsa\n"
        )
        with Remote(load(reach.tool.directory / "inventory.yaml").host("ascend01")) as remote:
            assert remote.is_open


@needs_sshd
@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_keys_of_other_kinds_on_both_sides(host: Start, reach: Reach, tmp_path: Path, kind: str) -> None:
    public = keys.stored(tmp_path / "id", keys.generate(kind))
    ascend = host(server="openssh", host_key_kind=kind, accept_key=False, authorized_keys=[public])
    reach.entry(ascend, identity_file=str(tmp_path / "id"))
    reach.good()


# --- a whole collection -----------------------------------------------------------------------------------------------


def test_a_profile_over_a_connection_that_breaks(host: Start, reach: Reach) -> None:
    ascend = host()
    with Link(ascend.address, ascend.port) as link:
        reach.entry(ascend, port=link.port)
        link.cut_after(300_000)  # in the pull: nearly all that is sent before is the agent, half as much
        outcome = reach.tool.collect()
        assert outcome.status == 0, outcome.err
        assert link.cuts == 1
        assert link.connections == 2
    assert outcome.document["verdict"] == "valid"


def test_one_login_for_a_whole_run(host: Start, reach: Reach) -> None:
    ascend = host()
    with Link(ascend.address, ascend.port) as link:
        reach.entry(ascend, port=link.port)
        outcome = reach.tool.collect()
        assert outcome.status == 0, outcome.err
        assert link.connections == 1
        assert link.alive == 0


def test_many_hosts_at_once(host: Start, reach: Reach) -> None:
    hosts = [host(name) for name in ("ascend01", "ascend02", "ascend03")]
    reach.tool.inventory(entries={h.name: {**h.inventory_entry(), "transport": reach.transport} for h in hosts})
    outcome = reach.tool("devices", "--host", "ascend01,ascend02,ascend03", "--json")
    assert outcome.status == 0, outcome.err
    assert [len(entry["devices"]) for entry in outcome.document["hosts"]] == [8, 8, 8]


def test_an_interrupted_login_leaves_nothing(reach: Reach, temporary: Path) -> None:
    with silent_server() as port:
        reach.entry(address="127.0.0.1", port=port)
        process = reach.tool.start("--host", "ascend01", "--model", "llama")
        assert process.stderr is not None
        assert "connecting" in process.stderr.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "nothing was started on the host" in err
    assert list(temporary.iterdir()) == []
    assert str(port) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_an_interrupted_pull_ends_at_once(host: Start, reach: Reach, tmp_path: Path) -> None:
    ascend = host()
    with Link(ascend.address, ascend.port, rate=60_000) as link:
        reach.entry(ascend, port=link.port)
        process = reach.tool.start("--host", "ascend01", "--model", "llama")
        assert process.stderr is not None
        while "pulling" not in (line := process.stderr.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, err = process.communicate(timeout=30)
        assert time.monotonic() - began < 8
        assert process.returncode == 130
        assert "is kept on" in err
        assert link.alive == 0
    assert not (reach.tool.profiles / ".incoming").exists()


def test_what_was_brought_before_an_interruption_counts(host: Start, reach: Reach) -> None:
    ascend = host()
    with Link(ascend.address, ascend.port) as link:
        reach.entry(ascend, port=link.port)
        process = reach.tool.start("--host", "ascend01", "--model", "llama", "--keep-raw")
        assert process.stderr is not None
        assert any("validating" in line for line in process.stderr)
        link.rate = 15_000
        while not (brought := [file for file in reach.tool.profiles.glob(".incoming/*/*") if file.stat().st_size]):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130, err
    (archive,) = brought
    whole = ascend.workdir / "runs" / archive.parent.name.partition(".")[0] / archive.name
    assert 0 < archive.stat().st_size < whole.stat().st_size
    archive.write_bytes(archive.read_bytes()[:-1] + b"?")  # to see that it is not brought again
    reach.entry(ascend)
    attach = ("attach", whole.parent.name, "--host", "ascend01", "--json")
    one_error(reach.tool(*attach), 8, message="arrived damaged", remedy="bring it again")
    outcome = reach.tool(*attach)
    assert outcome.status == 0, outcome.err
    assert not (reach.tool.profiles / ".incoming").exists()


TALKATIVE = """
import os
import torch

def load(device, options):
    for _ in range(16):
        print(os.urandom(1 << 17).hex())
    return torch.ones(4, 4).to(device)

def forward(state):
    return state @ state
"""


def test_an_archive_that_is_here_is_not_brought_again_when_its_log_was_cut_off(host: Start, reach: Reach) -> None:
    ascend = host()
    (reach.tool.directory / "talkative.py").write_text(TALKATIVE)
    models = {"talkative": {"adapter": "./talkative.py"}}
    with Link(ascend.address, ascend.port) as link:
        reach.entry(ascend, port=link.port, models=models)
        process = reach.tool.start("--host", "ascend01", "--model", "talkative")
        assert process.stderr is not None
        assert any("validating" in line for line in process.stderr)
        link.rate = 1_000_000
        while not (
            brought := [file for file in reach.tool.profiles.glob(".incoming/*/run.log") if file.stat().st_size]
        ):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130, err
    run = brought[0].parent.name.partition(".")[0]
    assert [path.name for path in brought[0].parent.iterdir()] == ["profile_l1.tar.gz"]
    reach.entry(ascend, models=models)
    outcome = reach.tool("attach", run, "--host", "ascend01", "--json")
    assert outcome.status == 0, outcome.err
    log = reach.tool.directory / outcome.document["directory"] / "run.log"
    assert log.stat().st_size > 16 << 18
    assert not (ascend.workdir / "runs" / run).exists()


def test_nothing_is_imported_that_is_not_used(host: Start, tool: Tool, client_home: Path) -> None:
    run = "import sys; from collect_remote.cli.main import main; failed = main(sys.argv[1:])"
    watch = f"{run}; sys.exit(failed or 'paramiko' in sys.modules)"
    Reach(tool, "openssh", client_home).entry(host())
    done = subprocess.run(
        [sys.executable, "-c", watch, *DRY_RUN],
        cwd=tool.directory,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
