"""Many hosts at once: what they take here is bounded, and given back whatever the hosts do."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from collect_remote import parallel
from collect_remote.inventory import Host, load
from collect_remote.npus.fleet import Answer, Fleet
from collect_remote.npus.judged import Wish
from collect_remote.ssh.doors import AT_A_DOOR
from simhost import SimHost, keys
from simhost.link import Link
from simhost.strangers import silent_server, web_server

Start = Callable[..., SimHost]
MANY, AT_ONCE = 24, 6


@pytest.fixture(params=["none named", "paramiko", "openssh"])
def transport(request: pytest.FixtureRequest) -> dict[str, str]:
    """What the inventory says of it: where it names none, a host that is asked once may be by libssh2."""
    return {} if request.param == "none named" else {"transport": request.param}


@pytest.fixture
def known(
    tmp_path: Path, client_home: Path, transport: dict[str, str]
) -> Callable[[dict[str, dict[str, Any]]], list[Host]]:
    """The hosts of an inventory with these entries."""

    def made(entries: dict[str, dict[str, Any]]) -> list[Host]:
        path = tmp_path / "inventory.yaml"
        path.write_text(
            yaml.safe_dump({"all": {"hosts": {name: {**entry, **transport} for name, entry in entries.items()}}})
        )
        return list(load(path).select("all"))

    return made


class Most:
    """The largest that `count` gives while this is entered."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count, self._over, self.seen = count, threading.Event(), 0
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Most:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.002):
            self.seen = max(self.seen, self._count())


def held() -> tuple[int, int]:
    """Descriptors and threads of this process."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def given_back(before: tuple[int, int]) -> bool:
    """A thread may need a moment to end after its last work."""
    until = time.monotonic() + 10
    while held() != before and time.monotonic() < until:
        time.sleep(0.02)
    return held() == before


@pytest.fixture
def warm(host: Start, known: Callable[..., list[Host]]) -> Iterator[SimHost]:
    """A host that was asked before: everything is imported, and what stays for the whole process is there."""
    ascend = host(npus=1)
    with Fleet(known({"warm": ascend.inventory_entry()}), Wish()) as fleet:
        (answer,) = fleet.ask()
    assert answer.error is None
    yield ascend


def test_as_many_connections_as_are_asked_at_once(
    warm: SimHost, known: Callable[..., list[Host]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "AT_ONCE", AT_ONCE)
    before = held()
    with Link(warm.address, warm.port) as link:
        hosts = known({f"ascend{n:02}": {**warm.inventory_entry(), "port": link.port} for n in range(MANY)})
        with Fleet(hosts, Wish()) as fleet, Most(lambda: link.alive) as most:
            answers = fleet.ask()
            assert not any(remote.is_open for remote in fleet._remotes), "nothing is kept for who is not asked again"
        assert [answer.host for answer in answers] == [host.name for host in hosts]
        assert [(len(answer.verdicts), answer.error) for answer in answers] == [(1, None)] * MANY
        assert link.connections == MANY
        assert 1 < most.seen < AT_ONCE + 10 < MANY  # the link hears of an end a little later
    assert given_back(before)


def test_connections_that_are_kept_are_used_again_and_given_back(
    warm: SimHost, known: Callable[..., list[Host]]
) -> None:
    before = held()
    with Link(warm.address, warm.port) as link:
        hosts = known({f"ascend{n:02}": {**warm.inventory_entry(), "port": link.port} for n in range(6)})
        with Fleet(hosts, Wish(), again=True) as fleet:
            assert not any(answer.error for _ in range(3) for answer in fleet.ask())
            assert link.connections == link.alive == 6
    assert given_back(before)


@pytest.mark.parametrize("again", [True, False])
def test_whatever_hosts_do_nothing_stays_of_them(
    warm: SimHost, host: Start, known: Callable[..., list[Host]], again: bool
) -> None:
    entry = warm.inventory_entry()
    deaf = host("ascend02", npus=1, npu_smi_fails=[-8005])
    before = held()
    with (
        Link(warm.address, warm.port) as stalled,
        Link(warm.address, warm.port) as cut,
        silent_server() as silent,
        web_server() as web,
    ):
        stalled.stall()
        cut.cut_after(8_000)
        wrong = {
            "refused": {"port": 1},
            "nowhere": {"address": "no-such-host.invalid"},
            "silent": {"address": "localhost", "port": silent},
            "stalled": {"address": "localhost", "port": stalled.port},
            "web": {"port": web},
            "another-key": {"host_key": keys.generate().public},
            "no-key": {"identity_file": "/no/such/key"},
            "cut": {"port": cut.port},
            "jump": {"jump": "nobody@127.0.0.1:1"},
        }
        entries = {name: {**entry, **change} for name, change in wrong.items()}
        (Path.home() / ".ssh" / "config").write_text("Host localhost\n ConnectTimeout 1\n")
        with Fleet(known({**entries, "good": entry, "deaf": deaf.inventory_entry()}), Wish(), again=again) as fleet:
            answers = {answer.host: answer for answer in fleet.ask()}
    assert given_back(before)
    assert {name for name, answer in answers.items() if answer.error is None} == {"good", *["cut"] * _healed(answers)}
    assert {answers[name].error.exit_code for name in wrong if answers[name].error} == {3}  # type: ignore[union-attr]
    assert answers["deaf"].error is not None
    assert answers["deaf"].error.exit_code == 5


def _healed(answers: dict[str, Answer]) -> bool:
    """A connection that is cut before the login is over is made again."""
    return answers["cut"].error is None


def test_only_some_log_in_at_one_jump_host_at_once(warm: SimHost, known: Callable[..., list[Host]]) -> None:
    with Link(warm.address, warm.port) as link:
        config = (
            f"Host gate\n HostName 127.0.0.1\n Port {link.port}\n User {warm.user}\n"
            f" IdentityFile {warm.identity_file}\n UserKnownHostsFile {warm.known_hosts}.gate\n"
        )
        Path(f"{warm.known_hosts}.gate").write_text(f"[127.0.0.1]:{link.port} {warm.host_key}\n")
        (Path.home() / ".ssh" / "config").write_text(config)
        hosts = known({f"ascend{n:02}": {**warm.inventory_entry(), "jump": "gate"} for n in range(2 * AT_A_DOOR)})
        link.stall()
        with Fleet(hosts, Wish()) as fleet:
            asking = threading.Thread(target=lambda: answers.extend(fleet.ask()))
            answers: list[Answer] = []
            asking.start()
            until = time.monotonic() + 10
            while link.alive < AT_A_DOOR and time.monotonic() < until:
                time.sleep(0.02)
            time.sleep(0.3)
            assert link.alive == AT_A_DOOR
            link.resume()
            asking.join(60)
        assert [answer.error for answer in answers] == [None] * len(hosts)
        assert link.connections == len(hosts)
