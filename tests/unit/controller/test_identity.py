"""Which keys are offered: files, and what a real ssh-agent holds."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from collect_remote.errors import AuthError
from collect_remote.ssh.identity import identities
from collect_remote.ssh.public_keys import public_half
from collect_remote.ssh.ssh_config import Hop
from sessions import HOP

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen here")


def hop(*files: Path, named: bool = True, only: bool = True) -> Hop:
    return replace(HOP, identity_files=files, identity_named=named, identities_only=only)


def keygen(path: Path, passphrase: str = "", *options: str) -> Path:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path), *options]
    subprocess.run(command, check=True, capture_output=True)
    return path


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An ssh-agent that is ours alone."""
    socket = tmp_path / "agent.sock"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it listens
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    yield
    process.send_signal(signal.SIGTERM)
    process.wait()
    process.stdout.close()


def ssh_add(path: Path, passphrase: str, tmp_path: Path) -> None:
    ask = tmp_path / "ask"
    ask.write_text(f"#!/bin/sh\necho {passphrase}\n")
    ask.chmod(0o755)
    environment = {**os.environ, "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}
    subprocess.run(["ssh-add", path], env=environment, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def names(asked: Hop) -> str:
    with identities(asked) as offered:
        return offered.names


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "cannot be read: No such file"), ("", "no private key"), ("junk\n" * 9, "no private key")],
    ids=["missing", "empty", "junk"],
)
def test_a_named_file_that_gives_no_key_is_named(
    tmp_path: Path, client_home: Path, content: str | None, why: str
) -> None:
    path = tmp_path / "my_key"
    if content is not None:
        path.write_text(content)
    with pytest.raises(AuthError, match=f"identity_file .*my_key.*{why}"), identities(hop(path)):
        pass


def test_a_hardware_key_is_left_to_ssh(tmp_path: Path, client_home: Path) -> None:
    kind = b"sk-ssh-ed25519@openssh.com"
    blob = base64.b64encode(len(kind).to_bytes(4, "big") + kind + bytes(50)).decode()
    (tmp_path / "my_key").write_text("what only the key itself can use\n")
    (tmp_path / "my_key.pub").write_text(f"{kind.decode()} {blob} me\n")
    with pytest.raises(AuthError, match="my_key is a hardware key") as caught, identities(hop(tmp_path / "my_key")):
        pass
    assert "transport: openssh" in caught.value.remedy


def test_one_of_ssh_config_is_passed_over(tmp_path: Path, client_home: Path) -> None:
    (tmp_path / "junk").write_text("junk")
    good = keygen(tmp_path / "good")
    with identities(hop(tmp_path / "junk", good, named=False)) as offered:
        assert offered.names == str(good)
        assert [problem.why for problem in offered.unusable] == [
            f"{tmp_path}/junk holds no private key that can be used"
        ]


def test_an_encrypted_key_without_agent(tmp_path: Path, client_home: Path) -> None:
    path = keygen(tmp_path / "my_key", "secret")
    with pytest.raises(AuthError, match="my_key is encrypted") as caught, identities(hop(path)):
        pass
    assert f"ssh-add {path}" in caught.value.remedy


@pytest.mark.parametrize("public", ["beside", "inside", "alone"])
def test_an_encrypted_key_is_used_by_the_agent_and_no_other_of_it(
    tmp_path: Path, client_home: Path, agent: None, public: str
) -> None:
    path = keygen(tmp_path / "my_key", "secret")
    ssh_add(path, "secret", tmp_path)
    ssh_add(keygen(tmp_path / "unrelated"), "", tmp_path)
    if public == "inside":
        (tmp_path / "my_key.pub").unlink()
    elif public == "alone":
        path.unlink()
    assert names(hop(path)) == f"{path} in ssh-agent"
    everything = names(hop(path, only=False))
    assert everything.startswith(f"{path} in ssh-agent, ")
    assert everything.count("in ssh-agent") == 2


def test_the_public_half_is_the_same_from_both_files(tmp_path: Path) -> None:
    path = keygen(tmp_path / "my_key", "secret")
    inside = public_half(path)
    assert inside is not None
    assert inside == public_half(path.with_name("my_key.pub"))
    path.write_text("junk")
    assert public_half(path) == inside
