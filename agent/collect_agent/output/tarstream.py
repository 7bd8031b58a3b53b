"""Reading a `.tar.gz` that nobody vouches for: every rule is enforced while the bytes stream by, once.

Neither `gzip -t` nor `tar tzf` proves an archive whole: the former ends at any closed gzip stream, the
latter takes a damaged header for the end. So the walk here checks the gzip CRC and trailer, nothing behind
them, every tar header's checksum, the two closing zero blocks, and only zeros after them.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Generator, Iterator, NamedTuple, Set

CHUNK = 1 << 20
BLOCK = tarfile.BLOCKSIZE
MAX_BYTES = 1 << 40
# A header is 512 bytes that compress a thousandfold: without a limit a small file could hold names for all
# memory.
MAX_MEMBERS = 1_000_000
MAX_NAME_RECORD = 1 << 16
LATEST = 1 << 33  # seconds; file systems take no times of the far future


class ArchiveError(Exception):
    """The archive is damaged or holds what it must not; `member` names the place where known."""

    def __init__(self, what: str, member: str = "") -> None:
        super().__init__("archive member %r %s" % (member, what) if member else "archive %s" % what)
        self.what = what
        self.member = member


def check_name(name: str) -> str:
    """`name` as a relative path of plain components; ArchiveError for everything that could leave its
    directory.
    """
    while name.startswith("./"):
        name = name[2:]
    name = name.rstrip("/")
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        raise ArchiveError("leaves the target directory", name)
    if any(part in ("", ".") for part in parts) or "\0" in name or "\\" in name:
        raise ArchiveError("has a name that is not a plain relative path", name)
    return name


def _inflate(path: str, max_bytes: int) -> Iterator[bytes]:
    """The uncompressed stream of one gzip member, in chunks of at most 1 MiB; the CRC and length are
    checked by zlib.
    """
    inflater = zlib.decompressobj(31)
    total = 0
    with open(path, "rb") as source:
        while not inflater.eof:
            packed = inflater.unconsumed_tail or source.read(CHUNK)
            if not packed:
                raise ArchiveError("ends early: the gzip stream is not closed")
            try:
                data = inflater.decompress(packed, CHUNK)
            except zlib.error as error:
                raise ArchiveError("is damaged: %s" % error) from error
            total += len(data)
            if total > max_bytes:
                raise ArchiveError("unpacks to more than %d bytes" % max_bytes)
            if data:
                yield data
        if inflater.unused_data or source.read(1):
            raise ArchiveError("has bytes behind its end")


def _ahead(chunks: Iterator[bytes]) -> Generator[bytes, None, None]:
    """`chunks`, each made in a thread while the one before is being used: zlib and sha256 both release the
    GIL.
    """
    reader = ThreadPoolExecutor(1)
    try:
        coming = reader.submit(next, chunks, b"")
        while True:
            data = coming.result()
            if not data:
                return
            coming = reader.submit(next, chunks, b"")
            yield data
    finally:
        # Not waiting: an abandoned walk may be collected in any thread, a reader's own included.
        reader.shutdown(wait=False)


class _Stream:
    """Pull reads of exact length from an iterator of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        """Between one and `size` bytes; b"" only at the end."""
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        data, self._rest = self._rest[:size], self._rest[size:]
        return bytes(data)

    def exactly(self, size: int) -> bytes:
        parts = []
        while size:
            data = self.read(size)
            if not data:
                raise ArchiveError("ends early: the tar stream is not closed")
            parts.append(data)
            size -= len(data)
        return b"".join(parts)


class Content(io.RawIOBase):
    """The bytes of one member as a raw binary file, to be read before the walk goes on."""

    def __init__(self, stream: _Stream, size: int) -> None:
        super().__init__()
        self._stream = stream
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._take(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def drain(self) -> None:
        """Skip what nobody read."""
        while self._take(CHUNK):
            pass

    def _take(self, size: int) -> bytes:
        if not self._left:
            return b""
        data = self._stream.read(min(size, self._left))
        if not data:
            raise ArchiveError("ends early: the tar stream is not closed")
        self._left -= len(data)
        return data


class Entry(NamedTuple):
    """One regular file or directory of an archive; `mtime` in seconds since the epoch."""

    name: str
    is_dir: bool
    size: int
    mtime: int
    content: io.RawIOBase


def _pax_records(data: bytes) -> Dict[str, str]:
    """`length key=value\\n` records of a pax header (POSIX.1-2001)."""
    records = {}
    while data:
        length, _, _ = data.partition(b" ")
        if not length.isdigit() or len(length) > 9 or not len(length) + 1 < int(length) <= len(data):
            raise ArchiveError("has a malformed extended header")
        key, _, value = data[len(length) + 1 : int(length) - 1].partition(b"=")
        records[key.decode("utf-8", "surrogateescape")] = value.decode("utf-8", "surrogateescape")
        data = data[int(length) :]
    return records


def _members(stream: _Stream) -> Iterator[Entry]:
    """The members of a tar stream to its very end. Long names of GNU and pax are understood, all else refused."""
    long_name = ""
    pax: Dict[str, str] = {}
    while True:
        block = stream.exactly(BLOCK)
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            if block.count(0) == BLOCK:
                break
            raise ArchiveError("is damaged: %s in a tar header" % error) from error
        if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE):
            if header.size > MAX_NAME_RECORD:
                raise ArchiveError("has an extended header of %d bytes" % header.size)
            record = stream.exactly(header.size + -header.size % BLOCK)[: header.size]
            if header.type == tarfile.GNUTYPE_LONGNAME:
                long_name = record.rstrip(b"\0").decode("utf-8", "surrogateescape")
            elif header.type == tarfile.XHDTYPE:
                pax = _pax_records(record)
            continue
        name = pax.get("path") or long_name or header.name
        if header.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE) or "GNU.sparse.major" in pax:
            raise ArchiveError("is neither a regular file nor a directory", name)
        is_dir = header.type == tarfile.DIRTYPE
        stated = pax.get("size", str(header.size))
        if not stated.isdecimal() or len(stated) > 20:
            raise ArchiveError("has no size", name)
        size = 0 if is_dir else int(stated)
        content = Content(stream, size)
        yield Entry(name, is_dir, size, min(max(int(header.mtime), 0), LATEST), content)
        content.drain()
        stream.exactly(-size % BLOCK)
        long_name, pax = "", {}
    if long_name or pax:
        raise ArchiveError("ends with a name that has no member")
    # One zero block may be a hole that damage left; the end of an archive is two of them, and zeros ever
    # after.
    if any(stream.exactly(BLOCK)):
        raise ArchiveError("is damaged: an empty tar header among its members")
    for data in iter(lambda: stream.read(CHUNK), b""):
        if data.count(0) != len(data):
            raise ArchiveError("has data behind the end of its tar stream")


def walk(path: str, *, max_bytes: int = MAX_BYTES) -> Generator[Entry, None, None]:
    """The members of the archive `path`, in order, with safe and unique names below one root directory.

    Streams: memory does not grow with the archive. Only when the iterator has ended without an error is the archive
    proved whole; whoever leaves before closes the iterator. Raises ArchiveError for damage and for every member that
    is not allowed, OSError for the file itself.
    """
    files: Set[str] = set()
    directories: Set[str] = set()
    roots: Set[str] = set()
    members = 0
    with contextlib.closing(_ahead(_inflate(path, max_bytes))) as chunks:
        for entry in _members(_Stream(chunks)):
            members += 1
            if members > MAX_MEMBERS:
                raise ArchiveError("has more than %d members" % MAX_MEMBERS)
            if entry.size > max_bytes:
                raise ArchiveError("claims %d bytes, more than the limit of %d" % (entry.size, max_bytes), entry.name)
            if entry.is_dir and entry.name.strip("./") == "":
                continue
            name = check_name(entry.name)
            parents = [name[:i] for i, letter in enumerate(name) if letter == "/"]
            if name in files or (not entry.is_dir and name in directories) or not files.isdisjoint(parents):
                raise ArchiveError("appears twice", name)
            directories.update(parents)
            (directories if entry.is_dir else files).add(name)
            roots.add(name.partition("/")[0])
            if len(roots) > 1 or (not entry.is_dir and not parents):
                raise ArchiveError("is not below the one root directory", name)
            yield entry._replace(name=name)
    if not files:
        raise ArchiveError("is empty")
