"""Write an archive in one pass: read, digest, tar, compress on every core, sync, rename.

The blocks are compressed independently, each primed with the 32 KiB before it, and joined by sync flushes
into one gzip member. Archives of several members would be simpler and are refused by streaming readers
(`tarfile` mode `r|gz`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import struct
import tarfile
import zlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import (
    Any,
    BinaryIO,
    Callable,
    Deque,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

from .. import cpus
from ..run.rundir import sync_directory
from .archive import MANIFEST
from .tarstream import check_name

BLOCK = 1 << 20
WINDOW = 1 << 15  # what a deflate back reference can reach

FEW_CORES = 4
FAST_LINK = 8e6  # bytes a second

Files = List[Dict[str, Any]]
Member = Tuple[str, Union[str, bytes]]


class PackError(Exception):
    """A source is not what can be packed, or did not hold still; the message names it."""


def tree(directory: str, name: str, wanted: Optional[Callable[[str], bool]] = None) -> List[Member]:
    """Members for every file below `directory`, sorted, under the archive path `name`.

    `wanted` gets each path relative to `directory`, of files and directories, and prunes what it refuses.
    Raises PackError for anything that is neither a regular file nor a directory, OSError when something
    cannot be listed.
    """
    members: List[Member] = []

    def visit(relative: str) -> None:
        with os.scandir(os.path.join(directory, relative)) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = os.path.join(relative, entry.name)
                if wanted is not None and not wanted(path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    visit(path)
                elif entry.is_file(follow_symlinks=False):
                    members.append(("%s/%s" % (name, path), entry.path))
                else:
                    raise PackError("%s is neither a regular file nor a directory" % entry.path)

    visit("")
    return members


class _Gzip:
    """One gzip member written by several threads; `write` takes any length, memory is two blocks a thread."""

    def __init__(self, out: BinaryIO, level: int, threads: int) -> None:
        self.size = 0
        self.sha256 = hashlib.sha256()
        self._out = out
        self._level = level
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads)
        self._coming: Deque["Future[bytes]"] = deque()
        self._block = bytearray()
        self._before = b""
        self._crc = 0
        self._length = 0
        # Deflate, no flags, no time, no hint of speed, Unix: the same members always give the same archive.
        self._emit(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")

    def write(self, data: bytes) -> None:
        self._crc = zlib.crc32(data, self._crc)
        self._length += len(data)
        self._block += data
        while len(self._block) >= BLOCK:
            with memoryview(self._block) as view:
                block = bytes(view[:BLOCK])
            self._submit(block, zlib.Z_SYNC_FLUSH)
            del self._block[:BLOCK]

    def finish(self) -> None:
        """Compress what is left and write the trailer (the length is modulo 2**32, RFC 1952)."""
        self._submit(bytes(self._block), zlib.Z_FINISH)
        while self._coming:
            self._emit(self._coming.popleft().result())
        self._emit(struct.pack("<II", self._crc, self._length & 0xFFFFFFFF))

    def close(self) -> None:
        """Stop the threads, whatever state the archive is in."""
        for future in self._coming:
            future.cancel()
        self._pool.shutdown()

    def _submit(self, block: bytes, flush: int) -> None:
        if len(self._coming) >= 2 * self._threads:
            self._emit(self._coming.popleft().result())
        self._coming.append(self._pool.submit(_deflate, block, self._before, self._level, flush))
        self._before = block[-WINDOW:]

    def _emit(self, data: bytes) -> None:
        self._out.write(data)
        self.sha256.update(data)
        self.size += len(data)


def _deflate(block: bytes, before: bytes, level: int, flush: int) -> bytes:
    if before:
        deflater = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=before)
    else:
        deflater = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflater.compress(block) + deflater.flush(flush)


def _chunks(path: str, file: BinaryIO, size: int) -> Iterator[bytes]:
    """The `size` bytes of `file`, which it closes; PackError when they are fewer or more by now."""
    with file:
        left = size
        while left:
            data = file.read(min(left, BLOCK))
            if not data:
                break
            left -= len(data)
            yield data
        if left or file.read(1):
            raise PackError("%s changed size while it was being packed" % path)


def _content(source: Union[str, bytes], newest: int) -> Tuple[int, int, Iterator[bytes]]:
    """Size, mtime and chunks of one member. Bytes made for the archive are as old as its newest file."""
    if isinstance(source, bytes):
        return len(source), newest, iter((source,) if source else ())
    file = open(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0)  # noqa: SIM115 - _chunks closes
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        file.close()
        raise PackError("%s is not a regular file" % source)
    return status.st_size, max(int(status.st_mtime), 0), _chunks(source, file, status.st_size)


def _total(members: Iterable[Member]) -> int:
    return sum(len(source) if isinstance(source, bytes) else os.stat(source).st_size for _, source in members)


class _Tar:
    """The tar stream of an archive: members go in one by one, digests come out, made in a thread of their own."""

    def __init__(self, out: _Gzip, on_bytes: Callable[[int], None]) -> None:
        self.files: Files = []
        self._out = out
        self._on_bytes = on_bytes
        self._digester = ThreadPoolExecutor(1)
        self._names: Set[str] = set()
        self._newest = 0

    def add(self, name: str, source: Union[str, bytes]) -> None:
        if check_name(name) != name or name in self._names:
            raise PackError("%r cannot be the name of a member, or is one already" % name)
        self._names.add(name)
        size, mtime, chunks = _content(source, self._newest)
        self._newest = max(self._newest, mtime)
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = size, mtime, 0o644
        self._out.write(info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape"))
        digest = hashlib.sha256()
        digested: "Optional[Future[None]]" = None
        for data in chunks:
            if digested is not None:
                digested.result()
            digested = self._digester.submit(digest.update, data)
            self._out.write(data)
            self._on_bytes(len(data))
        if digested is not None:
            digested.result()
        self._out.write(bytes(-size % tarfile.BLOCKSIZE))
        self.files.append({"path": name, "size": size, "sha256": digest.hexdigest()})

    def finish(self) -> None:
        self._out.write(bytes(2 * tarfile.BLOCKSIZE))

    def close(self) -> None:
        """Stop the thread, whatever state the archive is in."""
        self._digester.shutdown()


def level_for(cores: int, link_bytes_s: Optional[float]) -> int:
    """zlib's level for an archive that goes over a link of this speed (None: unknown). Pure.

    6, as tar has it; 1 where a few cores would keep a fast link waiting. It takes half the time of 6 for a quarter more
    bytes (579 MB of profile: 75 and 35 MB/s a core, 105 and 82 MB); from four cores on the difference is small.
    """
    return 1 if cores < FEW_CORES and link_bytes_s is not None and link_bytes_s > FAST_LINK else 6


def pack(
    members: Sequence[Member],
    target: str,
    *,
    manifest: Optional[Callable[[Files], Dict[str, Any]]] = None,
    level: int = 6,
    threads: Optional[int] = None,
    on_progress: Optional[Callable[[int, int], None]] = None,
) -> Dict[str, Any]:
    """Write `members`, in their order, to the `.tar.gz` file `target`; it appears there only when complete
    and synced.

    A member is (name in the archive, path of a regular file or bytes). `manifest` is called when all of
    them are written, with [{"path", "size", "sha256"}], and returns what becomes the last member,
    `profile_l1/manifest.json`: so a manifest that lists all other files needs no second pass. `level` is
    zlib's (see `level_for`), `threads` defaults to the cores, at most 16. `on_progress(bytes_done, bytes_total)` counts
    source bytes.

    Returns {"size", "sha256", "files"}: bytes and digest of the archive, and the files but for the
    manifest. Raises PackError naming a source that is no regular file or changes size, ArchiveError for a
    name no reader would accept, OSError (ENOSPC with a full disk); the unfinished `target + ".part"` is
    then gone.
    """
    total, done = _total(members), 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        if on_progress:
            on_progress(done, max(done, total))

    part = target + ".part"
    try:
        with open(part, "wb") as out:
            threads = threads or min(16, cpus.count())
            with contextlib.ExitStack() as stack:
                compressed = stack.enter_context(contextlib.closing(_Gzip(out, level, threads)))
                tar = stack.enter_context(contextlib.closing(_Tar(compressed, count)))
                for name, source in members:
                    tar.add(name, source)
                files = list(tar.files)
                if manifest is not None:
                    tar.add(MANIFEST, json.dumps(manifest(files), indent=1).encode())
                tar.finish()
                compressed.finish()
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, target)
        sync_directory(os.path.dirname(os.path.abspath(target)))
    except BaseException:
        if os.path.lexists(part):
            os.unlink(part)
        raise
    return {"size": compressed.size, "sha256": compressed.sha256.hexdigest(), "files": files}
