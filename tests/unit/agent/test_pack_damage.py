"""Archives nobody vouches for: cut, flipped, forged, malicious. Each is refused with its reason, nothing is written."""

from __future__ import annotations

import gc
import gzip
import hashlib
import io
import itertools
import json
import os
import tarfile
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collect_agent.output.archive import MANIFEST, ArchiveError, check_archive, extract
from collect_agent.output.pack import pack
from collect_agent.output.tarstream import walk

FILES = {"profile_l1/decode/a.csv": b"Step,Computing\n1,2.5\n", "profile_l1/decode/b.json": os.urandom(150)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: Any) -> bytes:
    target = tmp_path_factory.mktemp("whole") / "p.tar.gz"
    pack(list(FILES.items()), str(target), manifest=lambda files: {"files": files})
    return target.read_bytes()


def refuse(directory: Path, data: bytes, match: str = "", **options: Any) -> ArchiveError:
    path = directory / "p.tar.gz"
    path.write_bytes(data)
    with pytest.raises(ArchiveError, match=match) as caught:
        check_archive(str(path), **options)
    return caught.value


def tar(*members: tuple[str | tarfile.TarInfo, bytes], format: int = tarfile.GNU_FORMAT) -> bytes:  # noqa: A002
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for name, data in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def special(name: str, kind: bytes, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, b""


def listing(files: dict[str, bytes]) -> tuple[str, bytes]:
    entries = [{"path": p, "size": len(d), "sha256": hashlib.sha256(d).hexdigest()} for p, d in files.items()]
    return MANIFEST, json.dumps({"files": entries}).encode()


def test_cut_anywhere(tmp_path: Path, whole: bytes) -> None:
    for size in range(len(whole)):
        refuse(tmp_path, whole[:size], "ends early")


def test_every_flipped_bit_is_refused_or_changes_nothing(tmp_path: Path, whole: bytes) -> None:
    """Nothing protects the hints of the gzip header, nor the bits between a deflate block and the next byte."""
    path = tmp_path / "p.tar.gz"
    path.write_bytes(whole)
    good = check_archive(str(path))
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(bytes(flipped))
        try:
            found = check_archive(str(path))
        except ArchiveError:
            continue
        assert found["files"] == good["files"]


@given(position=st.integers(0, 12_000), value=st.integers(1, 255))
@settings(max_examples=300, deadline=None)
def test_a_damaged_tar_in_a_sound_gzip(tmp_path_factory: Any, whole: bytes, position: int, value: int) -> None:
    """Whatever byte of the tar stream changes, and the gzip around it is right: refused, never another exception."""
    data = bytearray(gzip.decompress(whole))
    position %= len(data)
    data[position] ^= value
    path = tmp_path_factory.getbasetemp() / "flipped.tar.gz"
    path.write_bytes(gzip.compress(bytes(data), 1))
    try:
        found = check_archive(str(path))
    except ArchiveError:
        return
    # Owner, mode and time carry a checksum of their own; padding behind a member is all that is left.
    assert {file["path"]: file["sha256"] for file in found["files"]} == {
        name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()
    }


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "ends early"),
        (b"not an archive at all", "damaged"),
        (gzip.compress(b""), "ends early"),
        (gzip.compress(bytes(1024)), "empty"),
        (gzip.compress(tar(*FILES.items())), "has no profile_l1/manifest.json"),
        (gzip.compress(tar(listing(FILES))), "in the manifest and not in the archive"),
        (gzip.compress(tar(*FILES.items(), ("profile_l1/more", b""), listing(FILES))), "more' is not in the manifest"),
        (gzip.compress(tar(*FILES.items(), (MANIFEST, b"{"))), "not JSON"),
        (gzip.compress(tar(*FILES.items(), (MANIFEST, b"[]"))), "lists no files"),
        (gzip.compress(tar(*FILES.items(), (MANIFEST, b'{"files": [{"path": 1}]}'))), "lists no files"),
        (gzip.compress(tar(*FILES.items(), listing({p: d + b"x" for p, d in FILES.items()}))), "has size"),
        (gzip.compress(tar(*FILES.items(), listing({p: d[::-1] for p, d in FILES.items()}))), "has sha256"),
        (gzip.compress(tar(*FILES.items(), listing(FILES))) + gzip.compress(b"x"), "bytes behind its end"),
        (gzip.compress(tar(*FILES.items(), listing(FILES))) + b"\0", "bytes behind its end"),
        (gzip.compress(tar(*FILES.items(), listing(FILES)) + b"x" + bytes(511)), "data behind the end of its tar"),
        (gzip.compress(tar(*FILES.items(), listing(FILES)).rstrip(b"\0") + bytes(600)), "ends early"),
        (gzip.compress(bytes(512) + tar(*FILES.items(), listing(FILES))), "empty tar header"),
    ],
    ids=itertools.count(),  # gzip puts the time into the data
)
def test_what_is_no_sound_archive(tmp_path: Path, data: bytes, match: str) -> None:
    refuse(tmp_path, data, match)


@pytest.mark.parametrize(
    ("member", "match"),
    [
        (("../evil", b""), r"member '\.\./evil' leaves the target directory"),
        (("profile_l1/../../evil", b""), "leaves the target directory"),
        (("/abs", b""), "leaves the target directory"),
        (("profile_l1//a", b""), "not a plain relative path"),
        (("profile_l1/a\\b", b""), "not a plain relative path"),
        (("other/a", b""), "not below the one root directory"),
        (("a", b""), "not below the one root directory"),
        (("profile_l1/decode/a.csv", b""), "appears twice"),
        (("profile_l1/decode", b""), "appears twice"),
        (("profile_l1/decode/a.csv/b", b""), "appears twice"),
        (special("profile_l1/link", tarfile.SYMTYPE, ".."), "neither a regular file nor a directory"),
        (special("profile_l1/link", tarfile.LNKTYPE, "profile_l1/decode/a.csv"), "neither a regular file nor"),
        (special("profile_l1/fifo", tarfile.FIFOTYPE), "neither a regular file nor a directory"),
        (special("profile_l1/null", tarfile.CHRTYPE), "neither a regular file nor a directory"),
        (special("profile_l1/sparse", tarfile.GNUTYPE_SPARSE), "neither a regular file nor a directory"),
    ],
)
@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_members_that_are_not_allowed(tmp_path: Path, member: Any, match: str, format: int) -> None:  # noqa: A002
    data = gzip.compress(tar(*FILES.items(), listing(FILES), member, format=format))
    refuse(tmp_path, data, match)
    with pytest.raises(ArchiveError, match=match):
        extract(str(tmp_path / "p.tar.gz"), str(tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["p.tar.gz"]


def test_long_names_of_other_tools_are_read(tmp_path: Path) -> None:
    long = {"profile_l1/" + "/".join(["d" * 90] * 4) + "/é": b"deep"}
    for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        (tmp_path / "p.tar.gz").write_bytes(gzip.compress(tar(*long.items(), listing(long), format=kind)))
        assert [file["path"] for file in check_archive(str(tmp_path / "p.tar.gz"))["files"]] == list(long)


def test_a_bomb_is_refused_before_it_goes_off(tmp_path: Path) -> None:
    bomb = {"profile_l1/zeros": bytes(40_000_000)}
    data = gzip.compress(tar(*bomb.items(), listing(bomb)))
    assert len(data) < 100_000
    refuse(tmp_path, data, "zeros' claims 40000000 bytes, more than the limit", max_bytes=4_000_000)
    many = gzip.compress(tar(*((f"profile_l1/{n}", bytes(400_000)) for n in range(20))))
    refuse(tmp_path, many, "unpacks to more than", max_bytes=4_000_000)
    forged = tarfile.TarInfo("profile_l1/x")
    forged.size = 10**15
    refuse(tmp_path, gzip.compress(forged.tobuf(tarfile.GNU_FORMAT) + bytes(1024)), "more than the limit")


def test_a_header_cannot_make_us_hold_its_name(tmp_path: Path) -> None:
    for kind in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE):
        info = tarfile.TarInfo("x")
        info.type, info.size = kind, 1 << 30
        stream = zlib.compressobj(9, zlib.DEFLATED, 31)
        data = stream.compress(info.tobuf(tarfile.GNU_FORMAT)) + stream.flush()
        refuse(tmp_path, data, "extended header of 1073741824 bytes")


@pytest.mark.parametrize(
    "record",
    [b"12 path=x", b"5 a=b\n", b"path=x\n", b"999 path=x\n", b"10 size=x\n", b"12 path=../x\n"],
)
def test_malformed_extended_headers(tmp_path: Path, record: bytes) -> None:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, len(record)
    header = info.tobuf(tarfile.GNU_FORMAT) + record.ljust(512, b"\0")
    refuse(tmp_path, gzip.compress(header + tar(*FILES.items(), listing(FILES))), "extended header|no size|leaves")


def test_extraction_takes_no_modes_and_leaves_nothing_behind(tmp_path: Path, whole: bytes) -> None:
    setuid = tarfile.TarInfo("profile_l1/tool")
    setuid.mode, setuid.uid, setuid.mtime = 0o4777, 0, 2**33
    closed = tarfile.TarInfo("profile_l1/closed")
    closed.type, closed.mode = tarfile.DIRTYPE, 0
    path = tmp_path / "p.tar.gz"
    path.write_bytes(gzip.compress(tar((closed, b""), ("profile_l1/closed/a", b"a"), (setuid, b"x"))))
    extract(str(path), str(tmp_path / "out"))
    assert (tmp_path / "out" / "profile_l1" / "tool").stat().st_mode & 0o7111 == 0
    assert (tmp_path / "out" / "profile_l1" / "closed" / "a").read_bytes() == b"a"
    path.write_bytes(whole[:-1])
    with pytest.raises(FileExistsError):
        extract(str(path), str(tmp_path / "out"))
    with pytest.raises(ArchiveError):
        extract(str(path), str(tmp_path / "cut"))
    assert not (tmp_path / "cut").exists()


def test_members_stream_in_bounded_pieces(tmp_path: Path) -> None:
    pack([("profile_l1/big", bytes(5_000_000))], str(tmp_path / "p.tar.gz"))
    for entry in walk(str(tmp_path / "p.tar.gz")):
        sizes = {len(piece) for piece in iter(lambda: entry.content.read(1 << 22), b"")}  # noqa: B023 - used at once
        assert max(sizes) <= 1 << 20


@pytest.mark.filterwarnings("ignore:.*FileIO:pytest.PytestUnraisableExceptionWarning")  # left open on purpose
def test_walks_left_in_the_middle_let_their_threads_go(tmp_path: Path) -> None:
    """Left as exceptions leave them: in cycles, collected at any time by any thread."""
    pack([("profile_l1/big", os.urandom(5_000_000))], str(tmp_path / "p.tar.gz"), level=0)
    before = threading.active_count()
    for _ in range(30):
        left: dict[str, Any] = {"walk": walk(str(tmp_path / "p.tar.gz"))}
        left["self"] = left
        next(left["walk"])
    del left
    gc.collect()
    deadline = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before
