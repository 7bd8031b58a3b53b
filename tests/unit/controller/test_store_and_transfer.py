"""Bytes in, verified files out; and the tree in which a name means verified."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import hashlib
import itertools
import json
import os
import time
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect_remote.collection.transfer import Sink, verify
from collect_remote.collection.wire import Sent
from collect_remote.errors import StorageError, TransferError, UnreachableError, UsageError
from collect_remote.results import growing, store

RUN = "20261109_100000_abcdef"


def entry(name: str, content: bytes) -> Sent:
    return Sent(name, len(content), hashlib.sha256(content).hexdigest())


def write(sink: Sink, content: bytes) -> None:
    while content:
        with sink.writing() as (file, lacks):
            written = os.write(file, content[:lacks])
        content = content[written:]


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=3), st.lists(st.integers(0, 12), min_size=1, max_size=9))
def test_files_come_out_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], sizes: list[int]
) -> None:
    """Whatever the blocks, also with empty files at either end; 0: another tool goes on with what this one brought."""
    directory = tmp_path_factory.mktemp("sink")
    files = tuple(entry(f"f{number}", content) for number, content in enumerate(contents))
    stream, blocks = b"".join(contents), itertools.chain(sizes, itertools.repeat(7))
    whole: list[Sent] = []
    with mock.patch("os.fsync"), contextlib.ExitStack() as tools:
        sink = tools.enter_context(Sink(directory, files[:1], whole.append))
        while sink.left or sink.files != files:
            size = min(next(blocks), sink.left)
            if not sink.left:
                sink.expect(files)
            elif size:
                write(sink, stream[sink.received : sink.received + size])
            else:
                tools.close()
                sink = tools.enter_context(Sink(directory, sink.files, whole.append))
    assert {file.name for file in whole} <= {file.name for file in files}
    assert [(directory / f"f{number}").read_bytes() for number in range(len(contents))] == contents


def test_a_flipped_bit_is_noticed_and_nothing_is_gone_on_with(tmp_path: Path) -> None:
    with (
        Sink(tmp_path, (entry("a", b"good"), entry("b", b"fine")), functools.partial(verify, tmp_path)) as sink,
        pytest.raises(TransferError, match="b arrived damaged"),
    ):
        write(sink, b"goodfinf")
    assert (tmp_path / "a").read_bytes() == b"good"
    assert not (tmp_path / "b").exists()


def test_a_file_is_told_when_it_is_whole(tmp_path: Path) -> None:
    whole: list[Sent] = []
    with Sink(tmp_path, (entry("a", b"good"),), whole.append) as sink:
        write(sink, b"go")
        assert not whole
        assert not sink.has("a")
        write(sink, b"od")
        assert sink.has("a")
    assert [file.name for file in whole] == ["a"]


def test_what_is_here_is_not_brought_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"go")
    with Sink(tmp_path, (entry("a", b"good"),), lambda _: None) as sink:
        assert (sink.received, sink.left) == (2, 2)
        write(sink, b"od")
    assert (tmp_path / "a").read_bytes() == b"good"
    with Sink(tmp_path, (entry("a", b"good"),), lambda _: None) as sink:
        assert (sink.received, sink.left) == (4, 0)
        assert sink.has("a")


@pytest.mark.parametrize("there", [b"gx", b"good and more"])
def test_what_is_here_and_of_another_archive_does_not_pass_for_this_one(tmp_path: Path, there: bytes) -> None:
    (tmp_path / "a").write_bytes(there)
    with Sink(tmp_path, (entry("a", b"good"),), functools.partial(verify, tmp_path)) as sink:
        if len(there) > 4:
            write(sink, b"good")
            assert (tmp_path / "a").read_bytes() == b"good"
        else:
            with pytest.raises(TransferError, match="damaged"):
                write(sink, b"od")
            assert not (tmp_path / "a").exists()


def test_other_files_than_were_announced_are_refused(tmp_path: Path) -> None:
    with (
        Sink(tmp_path, (entry("a", b"good"),), lambda _: None) as sink,
        pytest.raises(TransferError, match="other files than before"),
    ):
        sink.expect((entry("a", b"evil"), entry("b", b"x")))


def test_publishing_gives_a_name_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for run_id in ("r1", "r2"):
        place = store.place("h", "m", run_id)
        with growing.incoming(place):
            (place.incoming / "profile_l1.tar.gz").write_text(run_id)
            assert not place.final.exists()
            store.publish(place, {"run": run_id})
    tree = Path("profiles/h/m")
    assert sorted(path.name for path in tree.iterdir()) == ["latest", "r1", "r2"]
    assert json.loads((tree / "latest" / "manifest.json").read_text()) == {"run": "r2"}
    assert not Path("profiles/.incoming").exists()


def test_what_was_not_published_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = store.place("h", "m", "r1")
    with pytest.raises(KeyError), growing.incoming(place):
        (place.incoming / "half").write_text("x")
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_what_was_brought_before_the_connection_was_lost_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_id = "20261109_100000_abcdef"
    first, other, second = (store.place("h", "m", name) for name in (run_id, "20261109_100000_abcde0", run_id))
    with pytest.raises(UnreachableError), growing.incoming(first):
        (first.incoming / "profile_l1.tar.gz").write_text("half")
        third = store.place("h", "m", run_id)
        with growing.incoming(third):  # that one is held
            assert list(third.incoming.iterdir()) == []
        raise UnreachableError("gone")
    with growing.incoming(other):
        assert list(other.incoming.iterdir()) == []
    with growing.incoming(second):
        assert (second.incoming / "profile_l1.tar.gz").read_text() == "half"
        assert not first.incoming.exists()
    assert not Path("profiles/.incoming").exists()


@pytest.mark.parametrize("changed", [False, True])
def test_what_is_published_elsewhere_is_not_brought_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    here = store.place("h", "m", RUN)
    with growing.incoming(here):
        (here.incoming / "profile_l1.tar.gz").write_bytes(b"whole")
        store.publish(here, {"archive": dataclasses.asdict(entry("profile_l1.tar.gz", b"whole"))})
    if changed:
        (here.final / "profile_l1.tar.gz").write_bytes(b"w?ole")
    again = store.place("h", "m", RUN, Path("out"))
    with growing.incoming(again):
        assert (again.incoming / "profile_l1.tar.gz").exists() is not changed


def test_nothing_but_a_part_of_an_archive_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others can write, they may have put links there."""
    monkeypatch.chdir(tmp_path)
    precious = tmp_path / "precious"
    precious.write_text("precious")
    left = tmp_path / "profiles/.incoming" / f"{RUN}.abcdef"
    left.mkdir(parents=True)
    (left / "profile_l1.tar.gz").write_text("half")
    for name in ("manifest.json", "run.log", "profile_l1.partial.tar.gz"):
        (left / name).symlink_to(precious)
    (left / "folder").mkdir()
    (tmp_path / "profiles/.incoming" / f"{RUN}.my-backup").mkdir()
    place = store.place("h", "m", RUN)
    with growing.incoming(place):
        assert [path.name for path in place.incoming.iterdir()] == ["profile_l1.tar.gz"]
        store.publish(place, {})
    assert not place.final.is_symlink()
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("kind", ["link", "pipe", "second name", "link to a directory"])
def test_what_is_no_part_of_an_archive_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    left = tmp_path / "profiles/.incoming" / f"{RUN}.abcdef"
    left.parent.mkdir(parents=True)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "profile_l1.tar.gz").write_text("precious")
    archive = left / "profile_l1.tar.gz"
    if kind == "link to a directory":
        left.symlink_to(tmp_path / "foreign")
    else:
        left.mkdir()
        if kind == "link":
            archive.symlink_to(tmp_path / "foreign" / "profile_l1.tar.gz")
        elif kind == "pipe":
            os.mkfifo(archive)
        else:
            archive.hardlink_to(tmp_path / "foreign" / "profile_l1.tar.gz")
    place = store.place("h", "m", RUN)
    with growing.incoming(place):
        assert list(place.incoming.iterdir()) == []
    assert (tmp_path / "foreign" / "profile_l1.tar.gz").read_text() == "precious"


def test_a_file_system_without_locks_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fcntl.flock", mock.Mock(side_effect=OSError(errno.ENOSYS, "not here")))
    place = store.place("h", "m", RUN)
    with growing.incoming(place):
        (place.incoming / "profile_l1.tar.gz").write_text("half")
        other = store.place("h", "m", RUN)
        with growing.incoming(other):
            assert list(other.incoming.iterdir()) == []


def test_what_somebody_works_on_is_not_swept_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place, days = store.place("h", "m", RUN), 8 * 24 * 3600
    with growing.incoming(place):
        (place.incoming / "profile_l1.tar.gz").write_text("half")
        os.utime(place.incoming, (0, time.time() - days))
        with growing.incoming(store.place("h", "m", "20261109_100000_abcde0")):
            assert place.incoming.exists()
    with pytest.raises(UnreachableError), growing.incoming(place):
        (place.incoming / "profile_l1.tar.gz").write_text("half")
        os.utime(place.incoming, (0, time.time() - days))
        raise UnreachableError("gone")
    again = store.place("h", "m", RUN)
    with growing.incoming(again):  # whoever comes back for it is not too late
        assert (again.incoming / "profile_l1.tar.gz").read_text() == "half"


def test_a_log_that_was_brought_in_part_is_brought_anew(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"good")
    (tmp_path / "b").write_bytes(b"fi")
    with Sink(tmp_path, (entry("a", b"good"),), functools.partial(verify, tmp_path)) as sink:
        assert sink.received == 4
        sink.expect((entry("a", b"good"), entry("b", b"fine")))
        assert (sink.received, sink.left) == (4, 4)
        write(sink, b"fine")
    assert (tmp_path / "b").read_bytes() == b"fine"


def test_there_has_to_be_room_for_what_comes_later_too(tmp_path: Path) -> None:
    with (
        Sink(tmp_path, (entry("a", b"good"),), lambda _: None) as sink,
        pytest.raises(StorageError, match="not enough space"),
    ):
        sink.expect((entry("a", b"good"), Sent("b", 1 << 60, "")))


def test_nothing_empty_is_kept_but_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    for out in (None, Path("mine/new/h/m/r1")):
        with pytest.raises(UnreachableError), growing.incoming(store.place("h", "m", "r1", out)):
            raise UnreachableError("gone")
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["mine"]


def test_a_strange_latest_does_not_spoil_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles/h/m/latest").mkdir(parents=True)
    place = store.place("h", "m", "r1")
    with growing.incoming(place):
        store.publish(place, {})
    assert (place.final / "manifest.json").is_file()


def test_what_a_killed_tool_left_is_swept_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    days = 24 * 3600
    old, young = "20261101_100000_abcdef.123456", "20261109_100000_abcdef.123456"
    for name, age in ((old, 8 * days), (young, days), ("not-ours", 99 * days)):
        (tmp_path / "profiles/.incoming" / name).mkdir(parents=True)
        os.utime(tmp_path / "profiles/.incoming" / name, (0, time.time() - age))
    with growing.incoming(store.place("h", "m", "r1")):
        (incoming,) = {path.name for path in Path("profiles/.incoming").iterdir()} - {young, "not-ours"}
        assert incoming.startswith("r1.")


def test_a_result_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        store.place("h", "m", "r1", tmp_path / "out")


def test_a_directory_that_appeared_meanwhile_is_left_alone(tmp_path: Path) -> None:
    place = store.place("h", "m", "r1", tmp_path / "out")
    with growing.incoming(place):
        (place.incoming / "profile_l1.tar.gz").write_text("new")
        (tmp_path / "out").mkdir()
        with pytest.raises(UsageError, match="appeared while the run was going on"):
            store.publish(place, {})
    assert list((tmp_path / "out").iterdir()) == []
