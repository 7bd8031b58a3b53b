"""One file out of an archive, as a stream: nothing is unpacked to a disk, and memory does not grow with it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from collect_agent.archive import Digesting
from collect_agent.tarstream import ArchiveError, walk

from .errors import ProfileInvalid, UsageError

BRING_AGAIN = "copy it again, or collect again"


class Member(io.RawIOBase):
    """The bytes of the file `path` in `archive`, which has the digest `sha256`.

    Raises ProfileInvalid, here or while it is read, when the archive is damaged, has no such file, or another one; the
    digest is compared at its end. UsageError when the archive cannot be read, or the file is no text.
    """

    def __init__(self, archive: Path, path: str, sha256: str) -> None:
        super().__init__()
        self._archive, self._path, self._sha256 = archive, path, sha256
        self._entries = walk(str(archive))
        with readable(archive):
            content = next((entry.content for entry in self._entries if entry.name == path), None)
        if content is None:
            raise ProfileInvalid(f"{archive} has no {path}, which its manifest lists", BRING_AGAIN)
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

    def close(self) -> None:
        self._entries.close()
        super().close()


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
