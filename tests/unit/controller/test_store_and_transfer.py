"""Bytes in, verified files out; and the tree in which a name means verified."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect_remote import store
from collect_remote.errors import StorageError, TransferError, UsageError
from collect_remote.transfer import Sink
from collect_remote.wire import Sent


def entry(name: str, content: bytes) -> Sent:
    return Sent(name, len(content), hashlib.sha256(content).hexdigest())


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4), st.data())
def test_files_come_out_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], data: st.DataObject
) -> None:
    """Whatever the blocks, also with empty files at either end."""
    directory = tmp_path_factory.mktemp("sink")
    files = [entry(f"f{number}", content) for number, content in enumerate(contents)]
    stream = b"".join(contents)
    with Sink(directory, files) as sink:
        while sink.received < len(stream):
            size = data.draw(st.integers(1, len(stream) - sink.received))
            sink.write(stream[sink.received : sink.received + size])
        sink.verify()
    assert [(directory / f"f{number}").read_bytes() for number in range(len(contents))] == contents


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    with Sink(tmp_path, [entry("a", b"good"), entry("b", b"fine")]) as sink:
        sink.write(b"goodfinf")
        with pytest.raises(TransferError, match="b arrived damaged"):
            sink.verify()


def test_too_few_bytes_are_noticed(tmp_path: Path) -> None:
    with Sink(tmp_path, [entry("a", b"good")]) as sink:
        sink.write(b"go")
        with pytest.raises(TransferError, match="a arrived damaged"):
            sink.verify()


def test_a_file_that_is_there_already_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("precious")
    with pytest.raises(StorageError, match="exists"), Sink(tmp_path, [entry("a", b"new")]):
        pass
    assert (tmp_path / "a").read_text() == "precious"


def test_publishing_gives_a_name_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for run_id in ("r1", "r2"):
        place = store.place("h", "m", run_id)
        with store.incoming(place) as incoming:
            (incoming / "profile_l1.tar.gz").write_text(run_id)
            assert not place.final.exists()
            store.publish(place, {"run": run_id})
    tree = Path("profiles/h/m")
    assert sorted(path.name for path in tree.iterdir()) == ["latest", "r1", "r2"]
    assert json.loads((tree / "latest" / "manifest.json").read_text()) == {"run": "r2"}
    assert not Path("profiles/.incoming").exists()


def test_what_was_not_published_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = store.place("h", "m", "r1")
    with pytest.raises(KeyError), store.incoming(place) as incoming:
        (incoming / "half").write_text("x")
        raise KeyError
    assert list(Path("profiles").iterdir()) == []


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
    with store.incoming(place) as incoming:
        (incoming / "profile_l1.tar.gz").write_text("new")
        (tmp_path / "out").mkdir()
        with pytest.raises(UsageError, match="appeared while the run was going on"):
            store.publish(place, {})
    assert list((tmp_path / "out").iterdir()) == []
