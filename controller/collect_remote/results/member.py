"""Files out of an archive, as streams: nothing is unpacked to a disk, and memory does not grow with them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from collect_agent.output.archive import Digesting
from collect_agent.output.tarstream import ArchiveError, walk

from ..errors import ProfileInvalid, UsageError

BRING_AGAIN = "copy it again, or collect again"


class Checked(io.RawIOBase):
    """The bytes of the file `path` in `archive`, as `content` gives them, which must have the digest `sha256`.

    Raises ProfileInvalid, while it is read, when the archive is damaged or has another file; the digest is compared at
    its end. UsageError when the archive cannot be read, or the file is no text.
    """

    def __init__(self, archive: Path, path: str, sha256: str, content: io.RawIOBase) -> None:
        super().__init__()
        self._archive, self._path, self._sha256 = archive, path, sha256
        self._content = Digesting(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with readable(self._archive):
            size = self._content.readinto(buffer)
        if not size and self._content.finish() != self._sha256:
            raise ProfileInvalid(f"{self._path} in {self._archive} is not what its manifest lists", BRING_AGAIN)
        if b"\0" in memoryview(buffer)[:size].tobytes():
            raise UsageError(
                f"{self._path} holds NUL bytes: it is no text", "unpack the archive and read it with the tool for it"
            )
        return size


class Member(Checked):
    """The one file `path`. Raises what Checked does, and ProfileInvalid when the archive has no such file."""

    def __init__(self, archive: Path, path: str, sha256: str) -> None:
        self._entries = walk(str(archive))
        with readable(archive):
            content = next((entry.content for entry in self._entries if entry.name == path), None)
        if content is None:
            raise _missing(archive, path)
        super().__init__(archive, path, sha256, content)

    def close(self) -> None:
        self._entries.close()
        super().close()


def members(archive: Path, wanted: Mapping[str, str]) -> Iterator[tuple[str, Checked]]:
    """(path, bytes) of every file of `wanted`, {path: digest}, in the archive's order and in one pass.

    Each is to be read before the next is asked for. Raises what Member does.
    """
    left = dict(wanted)
    with contextlib.closing(walk(str(archive))) as entries:
        while left:
            with readable(archive):
                entry = next((entry for entry in entries if entry.name in left), None)
            if entry is None:
                raise _missing(archive, next(iter(left)))
            yield entry.name, Checked(archive, entry.name, left.pop(entry.name), entry.content)


def _missing(archive: Path, path: str) -> ProfileInvalid:
    return ProfileInvalid(f"{archive} has no {path}, which its manifest lists", BRING_AGAIN)


@contextlib.contextmanager
def readable(archive: Path) -> Iterator[None]:
    """What may come up while `archive` is read, as errors of ours."""
    try:
        yield
    except ArchiveError as error:
        where = f" ({error.member})" if error.member else ""
        raise ProfileInvalid(f"{archive} {error.what}{where}", BRING_AGAIN) from error
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"{archive} cannot be read: {why}", "see to its rights, or copy it") from error
