"""Bytes in, verified files out; and the tree in which a name means verified."""

from __future__ import annotations

import contextlib
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

from collect_remote import store
from collect_remote.errors import TransferError, UnreachableError, UsageError
from collect_remote.transfer import Sink, verify
from collect_remote.wire import Sent


def entry(name: str, content: bytes) -> Sent:
    return Sent(name, len(content), hashlib.sha256(content).hexdigest())


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
                sink.write(stream[sink.received : sink.received + size])
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
        sink.write(b"goodfinf")
    assert (tmp_path / "a").read_bytes() == b"good"
    assert not (tmp_path / "b").exists()


def test_a_file_is_told_when_it_is_whole(tmp_path: Path) -> None:
    whole: list[Sent] = []
    with Sink(tmp_path, (entry("a", b"good"),), whole.append) as sink:
        sink.write(b"go")
        assert not whole
        assert not sink.has("a")
        sink.write(b"od")
        assert sink.has("a")
    assert [file.name for file in whole] == ["a"]


def test_what_is_here_is_not_brought_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"go")
    with Sink(tmp_path, (entry("a", b"good"),), lambda _: None) as sink:
        assert (sink.received, sink.left) == (2, 2)
        sink.write(b"od")
    assert (tmp_path / "a").read_bytes() == b"good"
    with Sink(tmp_path, (entry("a", b"good"),), lambda _: None) as sink:
        assert (sink.received, sink.left) == (4, 0)
        assert sink.has("a")


@pytest.mark.parametrize("there", [b"gx", b"good and more"])
def test_what_is_here_and_of_another_archive_does_not_pass_for_this_one(tmp_path: Path, there: bytes) -> None:
    (tmp_path / "a").write_bytes(there)
    with Sink(tmp_path, (entry("a", b"good"),), functools.partial(verify, tmp_path)) as sink:
        if len(there) > 4:
            sink.write(b"good")
            assert (tmp_path / "a").read_bytes() == b"good"
        else:
            with pytest.raises(TransferError, match="damaged"):
                sink.write(b"od")
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
        with store.incoming(place):
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
    with pytest.raises(KeyError), store.incoming(place):
        (place.incoming / "half").write_text("x")
        raise KeyError
    assert list(Path("profiles").iterdir()) == []


def test_what_was_brought_before_the_connection_was_lost_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_id = "20261109_100000_abcdef"
    first, other, second = (store.place("h", "m", name) for name in (run_id, "20261109_100000_abcde0", run_id))
    with pytest.raises(UnreachableError), store.incoming(first):
        (first.incoming / "profile_l1.tar.gz").write_text("half")
        third = store.place("h", "m", run_id)
        with store.incoming(third):  # that one is held
            assert list(third.incoming.iterdir()) == []
        raise UnreachableError("gone")
    with store.incoming(other):
        assert list(other.incoming.iterdir()) == []
    with store.incoming(second):
        assert (second.incoming / "profile_l1.tar.gz").read_text() == "half"
        assert not first.incoming.exists()
    assert not Path("profiles/.incoming").exists()


def test_what_is_published_elsewhere_is_not_brought_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = store.place("h", "m", "20261109_100000_abcdef")
    with store.incoming(here):
        (here.incoming / "profile_l1.tar.gz").write_text("whole")
        store.publish(here, {})
    again = store.place("h", "m", "20261109_100000_abcdef", Path("out"))
    with store.incoming(again):
        assert (again.incoming / "profile_l1.tar.gz").read_text() == "whole"
    assert (here.final / "profile_l1.tar.gz").read_text() == "whole"


def test_nothing_empty_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = store.place("h", "m", "r1")
    with pytest.raises(UnreachableError), store.incoming(place):
        raise UnreachableError("gone")
    assert not Path("profiles/.incoming").exists()


def test_a_strange_latest_does_not_spoil_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles/h/m/latest").mkdir(parents=True)
    place = store.place("h", "m", "r1")
    with store.incoming(place):
        store.publish(place, {})
    assert (place.final / "manifest.json").is_file()


def test_what_a_killed_tool_left_is_swept_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    days = 24 * 3600
    old, young = "20261101_100000_abcdef.123456", "20261109_100000_abcdef.123456"
    for name, age in ((old, 8 * days), (young, days), ("not-ours", 99 * days)):
        (tmp_path / "profiles/.incoming" / name).mkdir(parents=True)
        os.utime(tmp_path / "profiles/.incoming" / name, (0, time.time() - age))
    with store.incoming(store.place("h", "m", "r1")):
        (incoming,) = {path.name for path in Path("profiles/.incoming").iterdir()} - {young, "not-ours"}
        assert incoming.startswith("r1.")


def test_a_result_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        store.place("h", "m", "r1", tmp_path / "out")


def test_a_directory_that_appeared_meanwhile_is_left_alone(tmp_path: Path) -> None:
    place = store.place("h", "m", "r1", tmp_path / "out")
    with store.incoming(place):
        (place.incoming / "profile_l1.tar.gz").write_text("new")
        (tmp_path / "out").mkdir()
        with pytest.raises(UsageError, match="appeared while the run was going on"):
            store.publish(place, {})
    assert list((tmp_path / "out").iterdir()) == []
