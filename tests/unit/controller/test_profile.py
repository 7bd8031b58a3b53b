"""A result from Python: its files as text, as rows, as data frames, straight out of the archive."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sys
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import results
from collect_remote import Profile
from collect_remote.errors import CollectError, ProfileInvalid, UsageError
from results import made

KERNELS = "kernel_details.csv"


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prefill and decode of two ranks."""
    return results.publish(tmp_path_factory.mktemp("several"), phase="separate", ranks=2)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return results.publish(tmp_path_factory.mktemp("one"))


def content(directory: Path, *parts: str) -> bytes:
    """What tar gives for the one member whose path has all these parts."""
    with tarfile.open(next(directory.glob("*.tar.gz"))) as tar:
        (member,) = [m for m in tar.getmembers() if all(part in m.name for part in parts)]
        file = tar.extractfile(member)
        assert file is not None
        return file.read()


def refused(kind: type[CollectError], what: Callable[[], Any], *, message: str, remedy: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        what()
    assert type(caught.value) is kind
    assert remedy in caught.value.remedy
    assert "\n" not in caught.value.message + caught.value.remedy


@pytest.mark.parametrize("archive_alone", [False, True])
def test_a_result_that_was_collected_earlier(one: Path, archive_alone: bool) -> None:
    profile = Profile.at(one / "profile_l1.tar.gz" if archive_alone else str(one))
    assert (profile.directory, profile.archive) == (one, one / "profile_l1.tar.gz")
    assert profile.verdict == "valid"
    assert profile.manifest["host"] == "ascend01"
    assert ("archive" in profile.manifest) != archive_alone


def test_text_comes_as_it_stands(one: Path) -> None:
    profile = Profile.at(one)
    for name in (KERNELS, "trace_view.json", "profiler_info.json", "profiler_metadata.json"):
        with profile.open(name) as file:
            assert file.read().encode() == content(one, "/" + name)
    with profile.open("trace_view.json") as file:
        assert isinstance(json.load(file), list)
    with profile.open(KERNELS) as file:
        assert file.readline().startswith("Step Id,")  # and nobody has to read it to its end


def test_rows_are_what_the_csv_module_finds(one: Path) -> None:
    profile = Profile.at(one)
    for name in (KERNELS, "step_trace_time.csv", "operator_details.csv"):
        text = io.StringIO(content(one, "/" + name).decode(), newline="")
        rows = list(profile.rows(name))
        assert rows == list(csv.DictReader(text))
        assert rows
    assert next(profile.rows(KERNELS))["Start Time(us)"].endswith("\t"), "values as they stand"


def test_a_byte_order_mark_and_blanks_around_names_are_no_part_of_them(tmp_path: Path) -> None:
    profile = Profile.at(made(tmp_path / "r", {"op.csv": "\ufeff Type ,Count\t\r\nMöbius, 7 \r\n".encode()}))
    assert list(profile.rows("op.csv")) == [{"Type": "Möbius", "Count": " 7 "}]
    with profile.open("op.csv") as file:
        assert file.read() == " Type ,Count\t\r\nMöbius, 7 \r\n"


def test_one_of_several_is_named(several: Path) -> None:
    profile = Profile.at(several)
    for phase in ("prefill", "decode"):
        for rank in (0, 1):
            with profile.open(KERNELS, phase=phase, rank=rank) as file:
                assert file.read().encode() == content(several, phase, f"_{4711 + rank}_", "/" + KERNELS)
    assert len(list(profile.rows("step_trace_time.csv", phase="decode", rank=1))) == 10
    with profile.open("profiler_info_1.json", phase="prefill") as file:  # only rank 1 has it
        assert json.load(file)["rank_id"] == 1


@pytest.mark.parametrize(
    ("which", "message", "remedy"),
    [
        ({}, "4 profiles have", "phase and rank: decode rank 0, decode rank 1, prefill rank 0, prefill rank 1"),
        ({"phase": "decode"}, "2 profiles have", "decode rank 0, decode rank 1"),
        ({"rank": 1}, "2 profiles have", "decode rank 1, prefill rank 1"),
        ({"phase": "both"}, "no profile of both", "prefill rank 0"),
        ({"phase": "decode", "rank": 2}, "no profile of decode rank 2", "decode rank 1"),
    ],
)
@pytest.mark.parametrize("way", ["open", "rows"])
def test_the_choices_are_named(several: Path, way: str, which: dict[str, Any], message: str, remedy: str) -> None:
    ask = getattr(Profile.at(several), way)
    refused(UsageError, lambda: ask(KERNELS, **which), message=message, remedy=remedy)


def test_a_profile_on_one_device_is_rank_0(one: Path) -> None:
    assert list(Profile.at(one).rows(KERNELS, rank=0)) == list(Profile.at(one).rows(KERNELS))


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("kernel_detail.csv", "there is: kernel_details.csv, "),
        ("trace.json", "there is: trace_view.json, "),
        ("ASCEND_PROFILER_OUTPUT/kernel_details.csv", "kernel_details.csv"),
        ("", "api_statistic.csv"),
    ],
)
def test_a_name_that_is_not_there(one: Path, name: str, nearest: str) -> None:
    refused(UsageError, lambda: Profile.at(one).open(name), message="there is no ", remedy=nearest)


def test_rows_are_of_tables(one: Path) -> None:
    refused(UsageError, lambda: Profile.at(one).rows("trace_view.json"), message="no table", remedy="open()")


def test_what_is_no_text_is_said_to_be_none(tmp_path: Path) -> None:
    directory = results.publish(tmp_path, export=("text", "db"))
    file = Profile.at(directory).open("ascend_pytorch_profiler.db")
    refused(UsageError, file.read, message="no text", remedy="unpack")
    file.close()


def test_memory_does_not_grow_and_nothing_is_unpacked(tmp_path: Path, temporary: Path) -> None:
    directory = made(tmp_path / "r", {"big.csv": b"a,b\n" + b"1,2\n" * (8 << 20)})
    profile = Profile.at(directory)
    tracemalloc.start()
    try:
        with profile.open("big.csv") as file:
            assert sum(map(len, iter(lambda: file.read(1 << 16), ""))) == 4 + (32 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in directory.iterdir()) == ["manifest.json", "profile_l1.tar.gz"]


@pytest.mark.parametrize("where", ["nowhere", "empty", "empty/profile_l1.tar.gz"])
def test_where_there_is_no_result(tmp_path: Path, where: str) -> None:
    (tmp_path / "empty").mkdir()
    refused(
        UsageError, lambda: Profile.at(tmp_path / where), message="there is no profile_l1.tar.gz at", remedy="directory"
    )


def test_what_the_system_refuses_to_look_at(tmp_path: Path) -> None:
    refused(UsageError, lambda: Profile.at(tmp_path / ("x" * 300)), message="File name too long", remedy="rights")


def test_what_is_no_archive(one: Path) -> None:
    refused(ProfileInvalid, lambda: Profile.at(one / "manifest.json"), message="is damaged", remedy="collect again")


def read_all(path: Path) -> None:
    profile = Profile.at(path)
    for name in (KERNELS, "trace_view.json"):
        with profile.open(name) as file:
            file.read()
    list(profile.rows("op_statistic.csv"))


@pytest.mark.parametrize("archive_alone", [False, True])
@pytest.mark.parametrize("damage", ["cut", "grown", "changed", "empty"])
def test_a_damaged_archive_is_one_clear_error(tmp_path: Path, damage: str, archive_alone: bool) -> None:
    directory = results.publish(tmp_path)
    archive = directory / "profile_l1.tar.gz"
    whole = bytearray(archive.read_bytes())
    middle = len(whole) // 2
    changed = whole[:middle] + bytes(64) + whole[middle + 64 :]
    archive.write_bytes({"cut": whole[:middle], "grown": whole + b"x", "changed": changed, "empty": b""}[damage])
    refused(
        ProfileInvalid, lambda: read_all(archive if archive_alone else directory), message=str(archive), remedy="again"
    )


def test_another_archive_of_the_same_size_is_found_out(tmp_path: Path) -> None:
    first, second = (made(tmp_path / name, {"op.csv": b"a,b\n1,%s\n" % name.encode()}) for name in ("x", "y"))
    archive = (second / "profile_l1.tar.gz").read_bytes()
    (first / "profile_l1.tar.gz").write_bytes(archive)
    manifest = json.loads((first / "manifest.json").read_text())
    (first / "manifest.json").write_text(json.dumps({**manifest, "archive": {"size": len(archive)}}))
    profile = Profile.at(first)
    for read in (lambda: list(profile.rows("op.csv")), lambda: profile.open("op.csv").read()):
        refused(ProfileInvalid, read, message="not what its manifest lists", remedy="again")


def test_a_file_that_the_archive_does_not_hold(tmp_path: Path) -> None:
    directory = made(tmp_path / "r", {"op.csv": b"a\n1\n"})
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["files"][0]["path"] = manifest["files"][0]["path"].replace("op.csv", "other.csv")
    (directory / "manifest.json").write_text(json.dumps(manifest))
    refused(
        ProfileInvalid, lambda: Profile.at(directory).open("other.csv"), message="has no .*other.csv", remedy="again"
    )


@pytest.mark.parametrize("name", ["../evil", "/evil", "profile_l1/../../evil"])
def test_names_of_an_archive_are_not_trusted(tmp_path: Path, name: str) -> None:
    archive = tmp_path / "in" / "profile_l1.tar.gz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as tar:
        info = tarfile.TarInfo(name)
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))
    refused(ProfileInvalid, lambda: Profile.at(archive), message="leaves the target directory", remedy="again")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [archive]


@pytest.mark.parametrize(
    "table", [b"a,b\n1\n", b"a,b\n1,2", b'a,b\n"1,2\n', b"a,b\n1,\xff\n", b"a,a\n1,2\n", b"", b"a\n"]
)
def test_a_table_that_is_damaged_is_one_clear_error(tmp_path: Path, table: bytes) -> None:
    profile = Profile.at(made(tmp_path / "r", {"op.csv": table}))
    refused(ProfileInvalid, lambda: list(profile.rows("op.csv")), message="op.csv", remedy="again")


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"format": "collect-remote/2"}, UsageError, "format 'collect-remote/2', not 'collect-remote/1'"),
        ({"format": None}, UsageError, "format None"),
        ({"verdict": None}, ProfileInvalid, "its verdict"),
        ({"profiles": [{"phase": "decode"}]}, ProfileInvalid, r"its profiles\[0\].directory"),
    ],
)
@pytest.mark.parametrize("archive_alone", [False, True])
def test_a_manifest_of_another_form(
    tmp_path: Path, changes: dict[str, Any], kind: type[CollectError], message: str, archive_alone: bool
) -> None:
    place = made(tmp_path / "r", {"op.csv": b"a\n1\n"}, **changes)
    place = place / "profile_l1.tar.gz" if archive_alone else place
    refused(kind, lambda: Profile.at(place), message=message, remedy="")


@pytest.mark.parametrize("text", ["", "[]", '{"files": 1}', '{"files": []}', '{"files": [], "archive": 7}', "\x00"])
def test_a_damaged_manifest_is_one_clear_error(tmp_path: Path, text: str) -> None:
    directory = made(tmp_path / "r", {"op.csv": b"a\n1\n"})
    (directory / "manifest.json").write_text(text)
    refused(ProfileInvalid, lambda: Profile.at(directory), message="manifest", remedy="")


def test_an_archive_that_was_copied_alone_into_a_directory(tmp_path: Path) -> None:
    directory = made(tmp_path / "r", {"op.csv": b"a\n1\n"})
    (directory / "manifest.json").unlink()
    assert list(Profile.at(directory).rows("op.csv")) == [{"a": "1"}]


def test_what_was_salvaged_opens_too(tmp_path: Path) -> None:
    directory = made(tmp_path / "r", {"op.csv": b"a\n1\n"}, verdict="invalid")
    (directory / "profile_l1.tar.gz").rename(directory / "profile_l1.partial.tar.gz")
    profile = Profile.at(directory)
    assert (profile.verdict, profile.archive.name) == ("invalid", "profile_l1.partial.tar.gz")
    assert list(profile.rows("op.csv")) == [{"a": "1"}]


def test_an_archive_that_goes_away(tmp_path: Path) -> None:
    directory = made(tmp_path / "r", {"op.csv": b"a\n1\n"})
    profile = Profile.at(directory)
    profile.archive.unlink()
    refused(UsageError, lambda: profile.open("op.csv"), message="cannot be read: No such file", remedy="rights")


def test_without_pandas_load_says_what_to_install(one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    refused(UsageError, lambda: Profile.at(one).load(KERNELS), message="needs pandas", remedy="pip install pandas")


def test_files_are_what_the_manifest_says_digest_by_digest(one: Path) -> None:
    profile = Profile.at(one)
    for file in profile.manifest["files"]:
        name = file["path"].rpartition("/")[2]
        with profile.open(name) as text:
            assert hashlib.sha256(text.read().encode()).hexdigest() == file["sha256"]
