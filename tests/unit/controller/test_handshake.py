"""What servers say before there is an encryption, and what becomes of a login that they turn away."""

from __future__ import annotations

import socket
import time

import pytest

from collect_remote.errors import UnreachableError
from collect_remote.ssh.transports import handshake
from collect_remote.ssh.transports.handshake import HungUp, NoBanner, Overheard, no_banner, offered, patiently


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.2p1\r\n", b"Keep out!\r\nSSH-1.99-Cisco\n", b"SSH-2.0-x\r\n\0\0"])
def test_a_banner_of_ssh_may_stand_behind_other_lines(said: bytes) -> None:
    assert no_banner(said, 20, ended=False) is None


@pytest.mark.parametrize(
    ("said", "ended", "means", "busy"),
    [
        (b"", False, "accepted the connection but sent no SSH banner in 20 s", False),
        (b"", True, "accepted the connection and closed it without an SSH banner", True),
        (
            b"HTTP/1.1 400 Bad Request\r\nDate: x",
            True,
            "is not an SSH server: it said 'HTTP/1.1 400 Bad Request'",
            False,
        ),
        (b"\xff\x00\x01", False, "is not an SSH server", False),
        (b"Exceeded MaxStartups\r\n", True, "turned us away: it said 'Exceeded MaxStartups'", True),
    ],
)
def test_what_is_wrong_with_other_words(said: bytes, ended: bool, means: str, busy: bool) -> None:
    found = no_banner(said, 20, ended=ended)
    assert found is not None
    assert means in str(found)
    assert isinstance(found, HungUp) is busy


def packet(*lists: bytes) -> bytes:
    names = b"".join(len(text).to_bytes(4, "big") + text for text in lists)
    return b"\0\0\1\0\4\x14" + bytes(16) + names


def test_the_algorithms_that_a_server_offers() -> None:
    lists = (b"curve25519-sha256,kex-strict", b"ssh-rsa", b"a,b", b"c", b"d", b"e", b"none", b"none", b"", b"")
    found = offered(b"Hello\r\nSSH-2.0-x\r\n" + packet(*lists))
    assert found["kex"] == ["curve25519-sha256", "kex-strict"]
    assert found["host key"] == ["ssh-rsa"]
    assert found["cipher"] == ["c"]  # towards us
    assert offered(b"SSH-2.0-x\r\n") == {}
    assert offered(b"") == {}


def turned_away(by: type[Exception]) -> UnreachableError:
    error = UnreachableError("no banner")
    error.__cause__ = by("no banner")
    return error


def test_only_a_server_that_hangs_up_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    answers: list[object] = [turned_away(HungUp), turned_away(HungUp), "in"]

    def log_in() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    assert patiently(log_in) == "in"
    assert len(pauses) == 2
    assert 0 < pauses[0] < pauses[1] <= 2
    answers[:] = [turned_away(NoBanner), "in"]
    with pytest.raises(UnreachableError):
        patiently(log_in)
    assert answers == ["in"]
    answers[:] = [turned_away(HungUp)] * (handshake.TRIES + 1)
    with pytest.raises(UnreachableError):
        patiently(log_in)
    assert len(answers) == 1


def test_what_comes_first_is_acknowledged_at_once() -> None:
    """Else a server that gathers small packets keeps the next one back for as long as our kernel waits: 40 ms."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        with near, far:
            wire = Overheard(near)
            for _ in range(5):
                # Talking in turns is what makes the kernel wait for a reply to acknowledge with.
                far.sendall(b"x")
                assert wire.recv(10) == b"x"
                assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
                near.sendall(b"y")
                assert far.recv(10) == b"y"


def test_a_server_that_hung_up_is_noticed_by_speaking_too() -> None:
    near, far = socket.socketpair()
    with near:
        far.close()
        wire = Overheard(near)
        with pytest.raises(BrokenPipeError):
            wire.send(b"SSH-2.0-x\r\n")
        assert wire.ended
        assert isinstance(no_banner(wire.said, 0.0, ended=wire.ended), HungUp)


def test_a_way_to_a_server_need_not_be_one_of_tcp() -> None:
    near, far = socket.socketpair()
    with near, far:
        far.sendall(b"SSH-2.0-x")
        assert Overheard(near).recv(100) == b"SSH-2.0-x"
