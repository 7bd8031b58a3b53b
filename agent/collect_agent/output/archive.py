"""A profile archive held against its own manifest, and unpacked, by the rules of `tarstream`."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
from typing import Any, Callable, Dict, Optional, Tuple

from .tarstream import CHUNK, MAX_BYTES, ArchiveError, Entry, walk

ROOT = "profile_l1"
MANIFEST_NAME = "manifest.json"
MANIFEST = ROOT + "/" + MANIFEST_NAME
MAX_MANIFEST = 64 << 20


class Digesting(io.RawIOBase):
    """A raw binary file that digests what is read through it."""

    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__()
        self._raw = raw
        self._digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._raw.readinto(buffer) or 0
        self._digest.update(memoryview(buffer)[:size])
        return size

    def finish(self) -> str:
        """Read what is left; the sha256 of the whole."""
        buffer = bytearray(CHUNK)
        while True:
            size = self._raw.readinto(buffer)
            if not size:
                return self._digest.hexdigest()
            self._digest.update(memoryview(buffer)[:size])


def read_archive(
    path: str, *, visit: Optional[Callable[[Entry], None]] = None, max_bytes: int = MAX_BYTES
) -> Tuple[Dict[str, Dict[str, Any]], Optional[bytes]]:
    """Walk the archive `path` to its end: ({name: {"path", "size", "sha256"}}, text of its manifest or None).

    `visit` gets every file but the manifest, its content not yet read, and may read it: still one pass.
    """
    files: Dict[str, Dict[str, Any]] = {}
    manifest = None
    with contextlib.closing(walk(path, max_bytes=max_bytes)) as entries:
        for entry in entries:
            if entry.is_dir:
                continue
            if entry.name == MANIFEST:
                if entry.size > MAX_MANIFEST:
                    raise ArchiveError("has %d bytes: no manifest is that large" % entry.size, entry.name)
                manifest = entry.content.readall()
                continue
            content = Digesting(entry.content)
            if visit is not None:
                visit(entry._replace(content=content))
            files[entry.name] = {"path": entry.name, "size": entry.size, "sha256": content.finish()}
    return files, manifest


def check_archive(path: str, *, max_bytes: int = MAX_BYTES) -> Dict[str, Any]:
    """Read the profile archive `path` once, to its last byte, and hold it against the manifest inside it.

    Returns {"bytes", "files": [{"path", "size", "sha256"}], "manifest"}: unpacked bytes, every file but the manifest,
    the manifest as parsed JSON. Raises ArchiveError, which says what is wrong and with which member, when the gzip or
    tar stream is not whole, a name or type is not allowed, something lies outside `profile_l1/`, or sizes, digests or
    the list of files are not those of the manifest.
    """
    files, manifest_text = read_archive(path, max_bytes=max_bytes)
    for name in files:
        if name.partition("/")[0] != ROOT:
            raise ArchiveError("is not below %s/" % ROOT, name)
    if manifest_text is None:
        raise ArchiveError("has no %s" % MANIFEST)
    manifest = parse_manifest(manifest_text)
    compare(files, manifest)
    return {
        "bytes": sum(item["size"] for item in files.values()),
        "files": list(files.values()),
        "manifest": manifest,
    }


def read_back(path: str, packed: Dict[str, Any]) -> None:
    """Read the archive `path`, just written, to its last byte: ArchiveError unless it is what `pack` says it wrote.

    Its own digest, the CRC and the length of what is in it, names and sizes. The digests of the members are left to
    whoever brings it (`check_archive`): they were taken from the very bytes that went in.
    """
    with contextlib.closing(walk(path)) as entries:
        found = [(entry.name, entry.size) for entry in entries]
    if found[:-1] != [(file["path"], file["size"]) for file in packed["files"]] or found[-1][0] != MANIFEST:
        raise ArchiveError("does not hold what was packed")
    if digest_file(path) != (packed["size"], packed["sha256"]):
        raise ArchiveError("is not what was written")


def parse_manifest(text: bytes) -> Dict[str, Any]:
    """The manifest, with `files` in the form {"path", "size", "sha256"}; ArchiveError when it is not one."""
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArchiveError("is not JSON: %s" % error, MANIFEST) from error
    if not isinstance(manifest, dict) or not _lists_files(manifest.get("files")):
        raise ArchiveError("lists no files", MANIFEST)
    return manifest


def _lists_files(files: Any) -> bool:
    return isinstance(files, list) and all(
        isinstance(item, dict) and isinstance(item.get("path"), str) and {"size", "sha256"} <= set(item)
        for item in files
    )


def compare(found: Dict[str, Dict[str, Any]], manifest: Dict[str, Any]) -> None:
    """ArchiveError naming the first file of `found` that is not what the manifest lists, or the reverse."""
    listed = {item["path"]: item for item in manifest["files"]}
    for path in sorted(set(found) | set(listed)):
        if path not in listed:
            raise ArchiveError("is not in the manifest", path)
        if path not in found:
            raise ArchiveError("is in the manifest and not in the archive", path)
        for key in ("size", "sha256"):
            if found[path][key] != listed[path][key]:
                raise ArchiveError("has %s %s, the manifest says %s" % (key, found[path][key], listed[path][key]), path)


def digest_file(path: str) -> Tuple[int, str]:
    """Size in bytes and sha256 of the file `path`."""
    digest = hashlib.sha256()
    size = 0
    with open(path, "rb") as source:
        for data in iter(lambda: source.read(CHUNK), b""):
            digest.update(data)
            size += len(data)
    return size, digest.hexdigest()


def extract(path: str, target: str, *, max_bytes: int = MAX_BYTES) -> None:
    """Unpack the archive `path` into the new directory `target`, by the rules of `walk`.

    Owners and modes of the archive are ignored (files 0644, directories 0755, less the umask); times are
    kept. On any error `target` is removed again. Raises FileExistsError when it exists, ArchiveError,
    OSError.
    """
    os.mkdir(target)
    try:
        with contextlib.closing(walk(path, max_bytes=max_bytes)) as entries:
            for entry in entries:
                _write(entry, os.path.join(target, *entry.name.split("/")))
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _write(entry: Entry, place: str) -> None:
    os.makedirs(place if entry.is_dir else os.path.dirname(place), exist_ok=True)
    if not entry.is_dir:
        with open(place, "xb") as out:
            shutil.copyfileobj(entry.content, out, CHUNK)
        os.utime(place, (entry.mtime, entry.mtime))
