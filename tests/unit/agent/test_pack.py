"""Packing and reading back: what goes in comes out, everywhere a person might open it, and nothing else passes."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collect_agent.output import pack as pack_module
from collect_agent.output.archive import MANIFEST, ArchiveError, check_archive, digest_file, extract, read_back
from collect_agent.output.pack import PackError, level_for, pack, tree

names = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="/\\\0"), min_size=1, max_size=40
).filter(lambda name: name not in (".", ".."))
paths = st.lists(names, min_size=1, max_size=5).map("/".join)


def manifest(files: list[dict[str, Any]]) -> dict[str, Any]:
    return {"format": "test", "files": files}


def some_tree(root: Path) -> Path:
    """A small profile-like tree with a long path, an empty file and a file of several blocks."""
    deep = root / "decode" / ("ascend01_4711_20260204070809010_ascend_pt" + "x" * 80) / "ASCEND_PROFILER_OUTPUT"
    deep.mkdir(parents=True)
    (deep / "trace_view.json").write_bytes(b'[{"ph": "X", "name": "mm", "ts": "1.5"}]' * 90_000)
    (deep / "op_statistic.csv").write_bytes(os.urandom(70_001))
    (deep / "analyse.done").touch()
    return root


@given(st.dictionaries(paths, st.binary(max_size=3000), min_size=1, max_size=8), st.integers(1, 9), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_any_members_come_back_as_they_were(
    tmp_path_factory: Any, contents: dict[str, bytes], level: int, threads: int
) -> None:
    contents = {f"profile_l1/{number}/{path}": data for number, (path, data) in enumerate(contents.items())}
    target = tmp_path_factory.mktemp("pack") / "p.tar.gz"
    done = pack(list(contents.items()), str(target), manifest=manifest, level=level, threads=threads)
    assert [file["path"] for file in done["files"]] == list(contents)
    checked = check_archive(str(target))
    assert checked["files"] == done["files"] == checked["manifest"]["files"]
    assert digest_file(str(target)) == (done["size"], done["sha256"])
    assert done["sha256"] == hashlib.sha256(target.read_bytes()).hexdigest()
    assert checked["bytes"] == sum(map(len, contents.values()))
    with tarfile.open(target, "r|gz") as archive:  # streaming: the strictest of the ordinary readers
        for name, data in contents.items():
            member = archive.next()
            assert member is not None and member.name == name
            assert archive.extractfile(member).read() == data  # type: ignore[union-attr]
            assert (member.uid, member.gid, member.uname, member.gname, member.mode) == (0, 0, "", "", 0o644)


def test_a_tree_is_packed_in_order_and_every_tool_reads_it(tmp_path: Path) -> None:
    root, target = some_tree(tmp_path / "tree"), tmp_path / "profile_l1.tar.gz"
    members = tree(str(root), "profile_l1")
    assert [name for name, _ in members] == sorted(name for name, _ in members)
    seen: list[tuple[int, int]] = []
    pack(members, str(target), manifest=manifest, threads=2, on_progress=lambda *at: seen.append(at))
    total = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    assert seen == sorted(seen)
    assert (total, total) in seen  # the manifest, unknown before, comes on top
    subprocess.run(["gzip", "-t", str(target)], check=True)
    listed = subprocess.run(["tar", "tzf", str(target)], check=True, capture_output=True, text=True).stdout.split()
    assert listed == [name for name, _ in members] + [MANIFEST]
    extract(str(target), str(tmp_path / "out"))
    out = tmp_path / "out" / "profile_l1"
    (out / "manifest.json").unlink()
    for path in root.rglob("*"):
        copy = out / path.relative_to(root)
        assert copy.is_dir() if path.is_dir() else copy.read_bytes() == path.read_bytes()
        assert path.is_dir() or int(copy.stat().st_mtime) == int(path.stat().st_mtime)


def test_the_same_members_give_the_same_bytes_on_any_number_of_threads(tmp_path: Path) -> None:
    members = tree(str(some_tree(tmp_path / "tree")), "profile_l1")
    sums = {pack(members, str(tmp_path / f"{n}.tar.gz"), manifest=manifest, threads=n)["sha256"] for n in (1, 2, 5)}
    assert len(sums) == 1


def test_blocks_share_their_history_so_that_threads_cost_no_size(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(os.urandom(30_000) * 200)  # repeats at a distance just inside deflate's window
    size = pack([("profile_l1/long", str(tmp_path / "long"))], str(tmp_path / "p.tar.gz"), level=6, threads=4)["size"]
    with tarfile.open(tmp_path / "whole.tar.gz", "w:gz", compresslevel=6) as whole:
        whole.add(tmp_path / "long", "profile_l1/long")
    assert size < 1.05 * (tmp_path / "whole.tar.gz").stat().st_size


@pytest.mark.parametrize("change", ["grow", "shrink"])
def test_a_source_that_changes_size_is_named_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    source = tmp_path / "step_trace_time.csv"
    source.write_bytes(b"x" * 5_000_000)

    def on_progress(done: int, total: int) -> None:
        if done < 2_000_000:
            with source.open("ab") as file:
                file.write(b"more") if change == "grow" else file.truncate(4_000_000)

    with pytest.raises(PackError, match=r"step_trace_time\.csv changed size"):
        pack([("profile_l1/a", str(source))], str(tmp_path / "p.tar.gz"), on_progress=on_progress)
    assert [path.name for path in tmp_path.iterdir()] == ["step_trace_time.csv"]


def test_only_a_fast_link_is_worth_a_larger_archive_and_only_where_cores_are_few() -> None:
    assert [level_for(cores, 50e6) for cores in (1, 3, 4, 16)] == [1, 1, 6, 6]
    assert [level_for(2, link) for link in (None, 1e6, 5e6, 200e6)] == [6, 6, 6, 1]


def test_what_was_packed_is_read_back(tmp_path: Path) -> None:
    target = str(tmp_path / "p.tar.gz")
    packed = pack([("profile_l1/a", b"aa"), ("profile_l1/b", b"b")], target, manifest=lambda files: {"files": files})
    read_back(target, packed)
    (tmp_path / "p.tar.gz").write_bytes((tmp_path / "p.tar.gz").read_bytes()[:-1])
    with pytest.raises(ArchiveError, match="ends early"):
        read_back(target, packed)
    other = pack([("profile_l1/a", b"ab"), ("profile_l1/b", b"b")], target, manifest=lambda files: {"files": files})
    with pytest.raises(ArchiveError, match="not what was written"):
        read_back(target, packed)
    with pytest.raises(ArchiveError, match="does not hold what was packed"):
        read_back(target, dict(other, files=other["files"][:1]))


def test_only_regular_files_are_packed(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    os.mkfifo(tmp_path / "tree" / "fifo")
    with pytest.raises(PackError, match="fifo is neither"):
        tree(str(tmp_path / "tree"), "profile_l1")
    assert tree(str(tmp_path / "tree"), "profile_l1", wanted=lambda path: path != "fifo") == []
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(OSError):
        pack([("profile_l1/link", str(tmp_path / "link"))], str(tmp_path / "p.tar.gz"))
    with pytest.raises(PackError, match="not a regular file"):
        pack([("profile_l1/fifo", str(tmp_path / "tree" / "fifo"))], str(tmp_path / "p.tar.gz"))


@pytest.mark.parametrize("name", ["/abs", "profile_l1/../x", "profile_l1//x", "p/./x", "a\\b", "", "profile_l1/"])
def test_a_name_that_no_reader_takes_is_not_written(tmp_path: Path, name: str) -> None:
    with pytest.raises((PackError, ArchiveError)):
        pack([(name, b"")], str(tmp_path / "p.tar.gz"))
    with pytest.raises(PackError, match="one already"):
        pack([("profile_l1/a", b""), ("profile_l1/a", b"")], str(tmp_path / "p.tar.gz"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="mounting a small file system needs root")
def test_a_full_disk_is_said_and_the_part_removed(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        (tmp_path / "source").write_bytes(os.urandom(4_000_000))
        with pytest.raises(OSError) as caught:
            pack([("profile_l1/a", str(tmp_path / "source"))], str(disk / "p.tar.gz"))
        assert caught.value.errno == errno.ENOSPC
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_threads_end_with_the_archive_good_or_bad(tmp_path: Path) -> None:
    before = threading.active_count()
    pack([("profile_l1/a", b"x" * 3_000_000)], str(tmp_path / "p.tar.gz"), threads=4)
    with pytest.raises(FileNotFoundError):
        pack([("profile_l1/a", b"x" * 3_000_000), ("profile_l1/b", str(tmp_path / "none"))], str(tmp_path / "q.tar.gz"))
    assert threading.active_count() == before


def test_reading_waits_for_slow_compression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow with the source: at most two blocks a thread are on their way."""
    done: list[int] = []
    ahead: list[int] = []

    def slow(*arguments: Any) -> bytes:
        time.sleep(0.005)
        done.append(1)
        return deflate(*arguments)

    deflate = pack_module._deflate
    monkeypatch.setattr(pack_module, "_deflate", slow)
    (tmp_path / "big").write_bytes(os.urandom(1 << 20) * 30)
    pack(
        [("profile_l1/big", str(tmp_path / "big"))],
        str(tmp_path / "p.tar.gz"),
        manifest=manifest,
        threads=2,
        on_progress=lambda at, total: ahead.append(at - (len(done) << 20)),
    )
    assert max(ahead) <= 6 << 20
    assert check_archive(str(tmp_path / "p.tar.gz"))["bytes"] == 30 << 20


def test_the_manifest_is_last_and_lists_the_rest(tmp_path: Path) -> None:
    pack([("profile_l1/a", b"one"), ("profile_l1/b", b"two")], str(tmp_path / "p.tar.gz"), manifest=manifest)
    with tarfile.open(tmp_path / "p.tar.gz") as archive:
        assert archive.getnames() == ["profile_l1/a", "profile_l1/b", "profile_l1/manifest.json"]
        text = archive.extractfile(MANIFEST).read()  # type: ignore[union-attr]
    assert [file["size"] for file in json.loads(text)["files"]] == [3, 3]
