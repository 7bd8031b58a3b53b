"""How a host is reached: the inventory over ssh_config, by `ssh -G` and without it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from collect_remote.errors import ConnectError
from collect_remote.inventory import Host, load
from collect_remote.ssh.ssh_config import resolve, resolve_jump, route
from collect_remote.ssh.ssh_settings import understood

CONFIG = """
Host npu
    HostName 192.0.2.7
    Port 2222
    User profiler
    IdentityFile ~/.ssh/npu_key
    ProxyJump gate,inner
    HostKeyAlias the-npu
    UserKnownHostsFile ~/.ssh/known_npus
    StrictHostKeyChecking accept-new
Host gate
    User guard
    Port 2022
Host free
    ProxyJump none
Host *
    ConnectTimeout 7
"""


@pytest.fixture(params=["ssh", "no-ssh"], autouse=True)
def settings(request: pytest.FixtureRequest, client_home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to read ssh_config: the `ssh` program, and paramiko's parser where there is none."""
    if request.param == "no-ssh":
        monkeypatch.setenv("PATH", str(client_home / "bin"))
    elif shutil.which("ssh") is None:
        pytest.skip("there is no ssh program here")
    (client_home / ".ssh" / "config").write_text(CONFIG)
    (client_home / ".ssh" / "npu_key").write_text("a key")
    return str(request.param)


def host(tmp_path: Path, **keys: Any) -> Host:
    import yaml

    path = tmp_path / "inventory.yaml"
    path.write_text(yaml.safe_dump({"all": {"hosts": {"h": keys}, "vars": {"models": {"m": {"adapter": "llama"}}}}}))
    return load(path).host("h")


def test_everything_comes_from_the_alias(tmp_path: Path, client_home: Path) -> None:
    hop = resolve(host(tmp_path, address="npu"))
    assert (hop.address, hop.port, hop.user) == ("192.0.2.7", 2222, "profiler")
    assert hop.identity_files == (client_home / ".ssh" / "npu_key",)
    assert hop.jumps == ("gate", "inner")
    assert hop.known_as == "the-npu"
    assert hop.known_hosts[0] == client_home / ".ssh" / "known_npus"
    assert hop.accept_new
    assert hop.connect_timeout == 7.0


def test_the_inventory_has_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("another key")
    hop = resolve(host(tmp_path, address="npu", port=2200, user="root", identity_file="key", jump="other"))
    assert (hop.port, hop.user, hop.jumps) == (2200, "root", ("other",))
    assert hop.identity_files == (tmp_path / "key",)
    assert hop.identities_only, "a named key is the only one that is offered"


def test_a_plain_name_gets_the_defaults(tmp_path: Path, client_home: Path) -> None:
    hop = resolve(host(tmp_path, address="192.0.2.9"))
    assert (hop.address, hop.port, hop.jumps, hop.proxy_command) == ("192.0.2.9", 22, (), None)
    assert hop.known_as == "192.0.2.9"
    assert hop.known_hosts[0] == client_home / ".ssh" / "known_hosts"
    assert not hop.accept_new


def test_proxyjump_none_is_no_host(tmp_path: Path) -> None:
    assert resolve(host(tmp_path, address="free")).jumps == ()


def test_another_port_is_part_of_the_known_name(tmp_path: Path) -> None:
    assert resolve(host(tmp_path, address="192.0.2.9", port=2200)).known_as == "[192.0.2.9]:2200"


@pytest.mark.parametrize(
    ("spec", "user", "name", "port"),
    [
        ("gate", "guard", "gate", 2022),
        ("me@gate", "me", "gate", 2022),
        ("me@gate:22", "me", "gate", 22),
        ("me@[2001:db8::1]:2200", "me", "2001:db8::1", 2200),
        ("me@2001:db8::1", "me", "2001:db8::1", 22),
    ],
)
def test_a_jump_host_is_written_as_ssh_does(spec: str, user: str, name: str, port: int) -> None:
    hop = resolve_jump(spec)
    assert (hop.user, hop.address, hop.port) == (user, name, port)


def test_a_broken_config_is_named(tmp_path: Path, client_home: Path) -> None:
    (client_home / ".ssh" / "config").write_text("Host npu\n    Port many words\n")
    with pytest.raises((ConnectError, ValueError)):
        resolve(host(tmp_path, address="npu"))


def test_the_tokens_of_a_proxy_command(tmp_path: Path, client_home: Path) -> None:
    (client_home / ".ssh" / "config").write_text(
        "Host npu\n    HostName 192.0.2.7\n    ProxyCommand carry %h %p %r 100%%\nHost odd\n    ProxyCommand carry %q\n"
    )
    hop = resolve(host(tmp_path, address="npu", port=2200, user="me"))
    assert hop.proxy_line() == "carry 192.0.2.7 2200 me 100%"
    odd = resolve(host(tmp_path, address="odd"))  # ssh may know it
    with pytest.raises(ConnectError, match="%q, which is not supported") as caught:
        odd.proxy_line()
    assert "transport: openssh" in caught.value.remedy


def test_only_the_first_jump_host_is_reached_as_its_own_entry_says(tmp_path: Path, client_home: Path) -> None:
    (client_home / ".ssh" / "config").write_text(
        "Host npu\n    ProxyJump gate,inner\nHost gate\n    ProxyJump outer\n"
        "Host outer inner\n    ProxyCommand carry %h\n"
    )
    hops = route(host(tmp_path, address="npu"))
    assert [hop.name for hop in hops] == ["outer", "gate", "inner", "npu"]
    assert hops[0].proxy_line() == "carry outer"


def test_a_way_that_leads_in_a_circle(tmp_path: Path, client_home: Path) -> None:
    (client_home / ".ssh" / "config").write_text("Host a\n    ProxyJump b\nHost b\n    ProxyJump a\n")
    with pytest.raises(ConnectError, match="does not end"):
        route(host(tmp_path, address="a"))


def test_no_file_of_known_hosts_is_none(tmp_path: Path, client_home: Path) -> None:
    (client_home / ".ssh" / "config").write_text(
        "Host *\n    UserKnownHostsFile none\n    GlobalKnownHostsFile /etc/known\n"
    )
    hop = resolve(host(tmp_path, address="npu"))
    assert hop.known_hosts == (Path("/etc/known"),)
    assert hop.new_keys is None


def test_a_key_that_only_the_agent_has_may_be_named_by_its_public_half(tmp_path: Path, client_home: Path) -> None:
    (client_home / ".ssh" / "gone.pub").write_text("ssh-ed25519 AAAA")
    (client_home / ".ssh" / "config").write_text("Host *\n    IdentityFile ~/.ssh/gone\n")
    assert resolve(host(tmp_path, address="npu")).identity_files == (client_home / ".ssh" / "gone",)


def test_what_the_inventory_has_wrong_is_not_blamed_on_ssh_config(settings: str, tmp_path: Path) -> None:
    if settings == "no-ssh":
        pytest.skip("only ssh judges these")
    for keys in ({"address": "a;b"}, {"address": "npu", "jump": "gate:many"}, {"address": "npu", "user": "a;b"}):
        with pytest.raises(ConnectError, match="cannot make out how to reach") as caught:
            route(host(tmp_path, **keys))
        assert "inventory" in caught.value.remedy
        assert "ssh/config" not in caught.value.remedy


def test_ssh_is_not_waited_for_without_end(
    settings: str, tmp_path: Path, client_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if settings == "no-ssh":
        pytest.skip("only ssh runs commands")
    monkeypatch.setattr("collect_remote.ssh.ssh_settings.SSH_TIMEOUT_S", 0.2)
    (client_home / ".ssh" / "config").write_text('Match exec "sleep 2"\n    Port 1\n')
    with pytest.raises(ConnectError, match="no answer within"):
        resolve(host(tmp_path, address="npu"))


def test_everything_that_keeps_a_connection_alive_or_ends_it(tmp_path: Path, client_home: Path) -> None:
    plain = resolve(host(tmp_path, address="192.0.2.9"))
    assert (plain.alive_interval, plain.alive_count) == (15.0, 3), "never none at all"
    (client_home / ".ssh" / "config").write_text(
        "Host *\n    ServerAliveInterval 5\n    ServerAliveCountMax 2\n    IdentityAgent ~/agent.sock\n"
        "    CertificateFile ~/.ssh/cert.pub\n"
    )
    hop = resolve(host(tmp_path, address="192.0.2.9"))
    assert (hop.alive_interval, hop.alive_count) == (5.0, 2)
    assert Path(hop.agent).expanduser() == client_home / "agent.sock" or hop.agent.endswith("/agent.sock")
    assert hop.certificates == (client_home / ".ssh" / "cert.pub",)


def test_algorithms_bind_where_the_user_has_named_them(settings: str, tmp_path: Path, client_home: Path) -> None:
    assert resolve(host(tmp_path, address="192.0.2.9")).algorithms == {}
    if settings == "no-ssh":
        pytest.skip("only ssh works out what + and - mean")
    (client_home / ".ssh" / "config").write_text(
        "Host *\n    Ciphers aes256-ctr,aes256-gcm@openssh.com\n    KexAlgorithms -ecdh*\n"
    )
    allowed = resolve(host(tmp_path, address="192.0.2.9")).algorithms
    assert set(allowed) == {"ciphers", "kex"}
    assert allowed["ciphers"] == ("aes256-ctr", "aes256-gcm@openssh.com")
    assert "curve25519-sha256" in allowed["kex"]
    assert not any(name.startswith("ecdh") for name in allowed["kex"])


@pytest.mark.parametrize(
    ("text", "passed_over"),
    [
        ("Host a\n    Port 1\n    LogLevel DEBUG\n# Include x\n", []),
        ("include ~/.ssh/more\nHost a\nciphers=+x\n", ["include", "ciphers"]),
        ("Match host a user me\nMatch all\nMatch !originalhost b\n", []),
        (
            "Match host a exec true\nMatch localnetwork 10.0.0.0/8\nMatch final\n",
            ["Match exec", "Match localnetwork", "Match final"],
        ),
        ("GSSAPIAuthentication yes\nGSSAPIAuthentication no\n", ["GSSAPIAuthentication"]),
    ],
)
def test_what_the_fallback_passes_over(text: str, passed_over: list[str]) -> None:
    kept, found = understood(text)
    assert found == passed_over
    assert len(kept.splitlines()) == len(text.splitlines())


def test_a_match_that_the_fallback_cannot_judge_holds_for_no_host(
    settings: str, tmp_path: Path, client_home: Path
) -> None:
    if settings == "ssh":
        pytest.skip("ssh can judge them")
    (client_home / ".ssh" / "config").write_text(
        "Match exec true\n    Port 1\nMatch localnetwork 127.0.0.0/8\n    Port 2\nMatch host 192.0.2.9\n    Port 3\n"
    )
    assert resolve(host(tmp_path, address="192.0.2.9")).port == 3
