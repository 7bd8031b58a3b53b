"""A large file that ssh itself writes: the same bytes as ever, whatever the login prints and whatever breaks."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from collect_remote import agent_file
from collect_remote.cancel import Cancel
from collect_remote.collection import deploy, transfer
from collect_remote.collection.run import Run
from collect_remote.collection.transfer import Sink, pull, verify
from collect_remote.collection.wire import Sent
from collect_remote.errors import LoginHangs, StorageError
from collect_remote.inventory import Host
from collect_remote.ssh.pour import Pour
from collect_remote.ssh.remote import Remote
from collect_remote.ssh.stream import Stream
from collect_remote.survey.survey import survey
from harness import command_line, gone
from sessions import needs_sshd
from simhost import SimHost
from simhost.link import Link

Start = Callable[..., SimHost]
Entry = Callable[..., Host]
Moved = Callable[[int, int], None]
RUN = "20261109_100000_abcdef"
MIB = 1024 * 1024
ARCHIVE = random.Random(5).randbytes(6 * MIB + 77)
LOG = b"one\ntwo\n"
RATE = 4 * MIB  # bytes a second, where something is to happen in the middle


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "POURED_BYTES", 1)


@pytest.fixture
def transport() -> str:
    return "openssh"


@pytest.fixture
def lab(simhost: Start, entry: Entry, tmp_path: Path) -> Lab:
    return Lab(simhost(), entry, tmp_path / "place")


class Lab:
    """A host with a run that has ended, and a place for its files here."""

    def __init__(self, host: SimHost, entry: Entry, place: Path) -> None:
        self.host, self.entry, self.place = host, entry, place
        self.archive = place / "profile_l1.tar.gz"
        place.mkdir(exist_ok=True)
        self.files = ended(host)
        with Remote(entry(host)) as remote:
            self.facts = survey(remote, remote.host, agent_file.build().name)

    def pull(self, moved: Moved = lambda _, __: None, *, cancel: Cancel | None = None, **changes: object) -> Watched:
        """Have all files here, whole."""
        whole = functools.partial(verify, self.place)
        with (
            Remote(self.entry(self.host, **changes), cancel) as remote,
            Sink(self.place, self.files, whole) as sink,
        ):
            run = Watched(deploy.Deployed(remote, self.facts), RUN, 20.0)
            pull(run, sink, moved).close()
        assert self.archive.read_bytes() == ARCHIVE
        assert (self.place / "run.log").read_bytes() == LOG
        return run


class Watched(Run):
    """A run that remembers from where on its files were poured, and sent."""

    def pour(self, offset: int, file: int) -> Pour | None:
        self.__dict__.setdefault("poured", []).append(offset)
        return super().pour(offset, file)

    def send(self, offset: int) -> Stream:
        self.__dict__.setdefault("sent", []).append(offset)
        return super().send(offset)

    def asked(self) -> tuple[list[int], list[int]]:
        return self.__dict__.get("poured", []), self.__dict__.get("sent", [])


def ended(host: SimHost) -> tuple[Sent, ...]:
    """The files of a run on the host that has ended well."""
    folder = host.workdir / "runs" / RUN
    folder.mkdir(parents=True)
    files = []
    for name, content in (("profile_l1.tar.gz", ARCHIVE), ("run.log", LOG)):
        (folder / name).write_bytes(content)
        files.append({"name": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()})
    end = {"seq": 1, "time": 0.0, "stage": "end", "status": "done", "files": files, "log": []}
    (folder / "events.jsonl").write_text(json.dumps(end) + "\n")
    return tuple(Sent(**file) for file in files)  # type: ignore[arg-type]


def once(act: Callable[[], None]) -> Moved:
    """`act` when the first bytes are here."""
    left = [act]

    def moved(done: int, of: int) -> None:
        if left:
            left.pop()()

    return moved


@pytest.mark.parametrize("server", [pytest.param("openssh", marks=needs_sshd), "asyncssh"])
@pytest.mark.parametrize("here", [0, 1, 3 * MIB, len(ARCHIVE) - 1])
def test_from_any_byte_on_and_whatever_the_login_prints(
    simhost: Start, entry: Entry, tmp_path: Path, server: str, here: int
) -> None:
    host = simhost(
        server=server,
        login_noise="\x1b[33mWelcome\x1b[0m\n",
        rc="head -c 300000 /dev/zero; read -r answer; echo half a line >&2; printf 'half a line'\n",
    )
    lab = Lab(host, entry, tmp_path / "place")
    lab.archive.write_bytes(ARCHIVE[:here])  # by an earlier tool
    assert lab.pull().asked() == ([here], [len(ARCHIVE)])


def test_what_is_here_is_not_poured(lab: Lab) -> None:
    lab.archive.write_bytes(ARCHIVE)
    assert lab.pull().asked() == ([len(ARCHIVE)], [len(ARCHIVE + LOG)])


def test_what_is_small_is_not_worth_a_command_of_its_own(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "POURED_BYTES", len(ARCHIVE) + len(LOG) + 1)
    assert lab.pull().asked() == ([], [0])


def test_paramiko_carries_every_byte_itself(lab: Lab) -> None:
    assert lab.pull(transport="paramiko").asked() == ([0], [0])


def test_a_connection_that_is_cut_off_in_the_middle(lab: Lab) -> None:
    with Link(lab.host.address, lab.host.port, rate=RATE) as link:
        run = lab.pull(once(link.cut), port=link.port)
        assert (link.cuts, link.connections) == (1, 2)
        assert link.to_client < len(ARCHIVE) + 2 * MIB
    (first, second), sent = run.asked()
    assert 0 == first < second < len(ARCHIVE)
    assert sent == [len(ARCHIVE)]


def test_a_connection_that_stalls(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "STALL_S", 0.5)
    with Link(lab.host.address, lab.host.port, rate=RATE) as link:
        resumes = threading.Timer(1.5, link.resume)

        def stalls() -> None:
            link.stall()
            resumes.start()
            monkeypatch.setattr(transfer, "STALL_S", 60.0)  # of what comes later

        run = lab.pull(once(stalls), port=link.port)
        resumes.join()
        assert link.connections > 1
    assert run.asked()[0][1] > 0


def test_an_agent_that_is_killed_in_the_middle(lab: Lab) -> None:
    def kill() -> None:
        (agent,) = [pid for pid in lab.host.processes() if b"pour" in command_line(pid).split(b"\0")]
        os.kill(agent, signal.SIGKILL)

    with Link(lab.host.address, lab.host.port, rate=RATE) as link:
        poured, sent = lab.pull(once(kill), port=link.port).asked()
    assert poured[0] == 0
    assert 0 < (poured[1:] or sent)[0] < len(ARCHIVE)


def test_a_disk_that_fills_up_here(simhost: Start, entry: Entry, tmp_path: Path) -> None:
    try:
        scratch = simhost("scratch", disk_mb=25).workdir  # any small file system will do
    except PermissionError as error:
        pytest.skip(f"a small file system cannot be mounted: {error}")
    lab = Lab(simhost(), entry, scratch / "place")

    def fill() -> None:
        with (scratch / "ballast").open("wb", buffering=0) as file:
            for size in (MIB, 4096):
                while os.statvfs(scratch).f_bavail * os.statvfs(scratch).f_frsize > size:
                    file.write(bytes(size))

    full = pytest.raises(StorageError, match=rf"not enough space in {lab.place}: need \d+ MiB, have 0 MiB")
    with Link(lab.host.address, lab.host.port, rate=RATE) as link, full:
        lab.pull(once(fill), port=link.port)
    assert ARCHIVE.startswith(lab.archive.read_bytes())
    (scratch / "ballast").unlink()
    assert lab.pull().asked()[0][0] > 0


def test_a_file_that_may_not_grow_any_more(lab: Lab) -> None:
    """ssh dies of it, without a word."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * MIB, hard))
    try:
        with pytest.raises(StorageError, match=f"cannot write to {lab.place}: File too large"):
            lab.pull()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert lab.archive.read_bytes() == ARCHIVE[: 3 * MIB]


def test_ctrl_c_leaves_what_is_good_and_nothing_on_the_host(lab: Lab) -> None:
    cancel = Cancel()
    with Link(lab.host.address, lab.host.port, rate=RATE) as link, pytest.raises(KeyboardInterrupt):
        lab.pull(once(cancel.set), cancel=cancel, port=link.port)
    assert gone(lab.host.processes)
    here = lab.archive.stat().st_size
    assert 0 < here < len(ARCHIVE)
    assert lab.pull().asked() == ([here], [len(ARCHIVE)])


def test_a_login_that_hangs_leaves_nothing_in_the_file(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.archive.write_bytes(ARCHIVE[:MIB])
    lab.host.set_state(rc="echo Welcome; echo Which project?; sleep 30\n")
    monkeypatch.setattr("collect_remote.ssh.shell.BEGIN_S", 1.0)
    with Remote(lab.entry(lab.host)) as remote, Sink(lab.place, lab.files, lambda _: None) as sink:
        run = Watched(deploy.Deployed(remote, lab.facts), RUN, 0.0)
        with pytest.raises(LoginHangs, match=r"Which project\?"):
            pull(run, sink, lambda _, __: None)
        assert run.asked() == ([MIB], [])
    assert lab.archive.read_bytes() == ARCHIVE[:MIB]


def test_what_a_login_leaves_running_prints_into_no_file_that_is_whole(lab: Lab) -> None:
    lab.host.set_state(rc="(while [ ! -e $HOME/whole ]; do sleep 0.05; done; echo late; echo >> $HOME/printed) &\n")
    with (
        Remote(lab.entry(lab.host)) as remote,
        Sink(lab.place, lab.files, functools.partial(verify, lab.place)) as sink,
    ):
        run = Watched(deploy.Deployed(remote, lab.facts), RUN, 20.0)
        stream = pull(run, sink, lambda _, __: None)
        (lab.host.home / "whole").touch()
        time.sleep(0.3)
        stream.close()
    assert run.asked() == ([0], [len(ARCHIVE)])
    assert lab.archive.read_bytes() == ARCHIVE


@needs_sshd
def test_a_server_that_allows_one_session_at_a_time(simhost: Start, entry: Entry, tmp_path: Path) -> None:
    lab = Lab(simhost(server="openssh", sshd={"MaxSessions": "1"}), entry, tmp_path / "place")
    with Remote(entry(lab.host)) as remote, Sink(lab.place, lab.files, functools.partial(verify, lab.place)) as sink:
        remote.prepare()
        time.sleep(0.5)
        pull(Watched(deploy.Deployed(remote, lab.facts), RUN, 20.0), sink, lambda _, __: None).close()
    assert lab.archive.read_bytes() == ARCHIVE
