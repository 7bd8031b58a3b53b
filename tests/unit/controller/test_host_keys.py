"""Which host keys are accepted, from known_hosts files as OpenSSH's own tools write them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect_remote.errors import HostKeyError
from collect_remote.ssh.host_keys import Policy, listed, matches
from collect_remote.ssh.ssh_config import Hop
from sessions import HOP as PLAIN

HOP = replace(PLAIN, address="npu7.example.com")


@pytest.fixture
def hop(tmp_path: Path) -> Hop:
    return replace(HOP, known_hosts=(tmp_path / "known",), new_keys=tmp_path / "known")


KEY, OTHER = paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate()


def line(names: str, key: paramiko.PKey = KEY, marker: str = "") -> str:
    return f"{marker} {names} {key.get_name()} {key.get_base64()} a comment\n".lstrip()


def judge(hop: Hop, text: str = "") -> None:
    if text:
        hop.known_hosts[0].write_text(text)
    Policy(hop).judge(KEY.get_name(), KEY.asbytes())


@pytest.mark.parametrize(
    ("host", "names", "means"),
    [
        ("npu7.example.com", "npu7.example.com", True),
        ("NPU7.example.com", "other,npu7.Example.com", True),
        ("npu7.example.com", "*.example.com", True),
        ("npu7.example.com", "npu?.example.com", True),
        ("npu7.example.com", "npu??.example.com", False),
        ("npu7.example.com", "*.example.com,!npu7.example.com", False),
        ("npu7.example.com", "!npu8.example.com,*.example.com", True),
        ("npu7.example.com", "!npu8.example.com", False),
        ("npu7xexample.com", "npu7.example.com", False),
        ("[npu7.example.com]:2222", "[*.example.com]:2222", True),
        ("[npu7.example.com]:2222", "npu7.example.com", False),
        ("npu7.example.com", "|1|no base64|at all", False),
    ],
)
def test_names_are_patterns(host: str, names: str, means: bool) -> None:
    assert matches(host, names) is means


def test_hashed_names_as_ssh_keygen_writes_them(hop: Hop) -> None:
    keygen = shutil.which("ssh-keygen")
    if keygen is None:
        pytest.skip("there is no ssh-keygen here")
    known = hop.known_hosts[0]
    known.write_text(line("npu7.example.com"))
    subprocess.run([keygen, "-H", "-f", known], check=True, capture_output=True)
    assert known.read_text().startswith("|1|")
    judge(hop)
    with pytest.raises(HostKeyError, match="not a known host"):
        judge(replace(hop, address="npu8.example.com"))


def test_any_of_several_keys_will_do(hop: Hop) -> None:
    judge(hop, line("npu7.example.com") + line("npu7.example.com", OTHER))
    judge(hop, "junk\n\n# a comment\n*.example.com ssh-ed25519 !!!\n" + line("*.example.com"))


def test_a_changed_key_is_named_with_its_line(hop: Hop) -> None:
    with pytest.raises(HostKeyError, match=r"known:2 says"):
        judge(hop, "# ours\n" + line("npu7.example.com", OTHER))


def test_a_revoked_key_is_refused_even_when_it_is_listed_or_new_ones_are_accepted(hop: Hop) -> None:
    revoked = line("*", marker="@revoked")
    with pytest.raises(HostKeyError, match=r"known:2 marks as revoked"):
        judge(replace(hop, accept_new=True), line("npu7.example.com") + revoked)
    judge(hop, line("npu7.example.com") + line("*", OTHER, marker="@revoked"))


def test_certificate_authorities_are_no_host_keys(hop: Hop) -> None:
    with pytest.raises(HostKeyError, match=r"certificate authority of \S*known:1 alone") as caught:
        judge(hop, line("*", marker="@cert-authority"))
    assert "transport: openssh" in caught.value.remedy
    with pytest.raises(HostKeyError, match="says"):
        judge(hop, line("*", marker="@cert-authority") + line("npu7.example.com", OTHER))


def test_a_new_key_is_kept_where_there_is_a_file(hop: Hop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge(replace(hop, accept_new=True))
    judge(hop)  # known from now on
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    judge(replace(hop, accept_new=True, known_hosts=(), new_keys=None))
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_new_key_gets_a_line_of_its_own(hop: Hop, end: str) -> None:
    judge(replace(hop, accept_new=True), line("npu8.example.com", OTHER).rstrip("\n") + end)
    judge(hop)
    assert len(hop.known_hosts[0].read_text().splitlines()) == 2


NAMES = ("a", "A", "b", "a.b", "*", "?", "!a", "*.b", "[a]:22", "|1|AAAA|AAAA", "#a", "")
LISTS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(",".join).filter(bool)


@given(
    st.lists(st.tuples(st.sampled_from(("", "@revoked", "@other")), LISTS)),
    st.sampled_from(("a", "b", "a.b", "[a]:22", "c")),
)
def test_of_many_lines_those_are_found_that_mean_the_host(rows: list[tuple[str, str]], name: str) -> None:
    """As if every one was looked at."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "known")
        path.write_text("".join(line(names, KEY, marker) for marker, names in rows))
        asked = replace(HOP, known_hosts=(path,), alias=name)
        found = [int(known.place.rpartition(":")[2]) for known in listed(asked)]
    assert found == [
        number
        for number, (marker, names) in enumerate(rows, 1)
        if marker != "@other" and not names.startswith("#") and matches(name, names)
    ]


def test_a_file_that_changes_is_read_again_and_one_that_cannot_be_read_knows_nobody(hop: Hop) -> None:
    with pytest.raises(HostKeyError, match="not a known host"):
        judge(hop, line("npu8.example.com"))
    judge(hop, line("npu7.example.com"))
    hop.known_hosts[0].unlink()
    hop.known_hosts[0].mkdir()
    with pytest.raises(HostKeyError, match="not a known host"):
        judge(hop)


def test_a_file_that_could_not_be_read_once_is_read_again(hop: Hop, monkeypatch: pytest.MonkeyPatch) -> None:
    hop.known_hosts[0].write_text(line("npu7.example.com"))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", raising(OSError(24, "Too many open files")))
        with pytest.raises(HostKeyError, match="not a known host"):
            judge(hop)
    judge(hop)


def raising(error: Exception) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


def test_known_kinds_are_asked_for_first(hop: Hop) -> None:
    hop.known_hosts[0].write_text(line("npu7.example.com") + line("npu8.example.com", paramiko.RSAKey.generate(2048)))
    assert Policy(hop).kinds == {KEY.get_name()}
