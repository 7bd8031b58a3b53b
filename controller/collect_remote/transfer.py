"""Pulling the files of a run: resumable, every length and digest checked, an end of stream never trusted."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .errors import StorageError, TransferError, UnreachableError, from_agent, storage_error
from .remote import Stream
from .run import Run, events
from .tenacity import Tenacity
from .wire import LOG, Sent, sent_files

STALL_S = 60.0
MARGIN_BYTES = 16 * 1024 * 1024


def pull(run: Run, files: Sequence[Sent], directory: Path, on_progress: Callable[[int, int], None]) -> Stream:
    """Bring `files` into `directory`, whole and verified, in one stream.

    Returns the stream, on which `ok` may be sent to have the run removed from the host. StorageError when there is no
    room here, TransferError when what came is not what was announced, UnreachableError when the host stays away.
    """
    _make_room(directory, sum(file.size for file in files))
    tenacity = Tenacity(run.remote, run.reconnect_for)

    def moved(done: int, of: int) -> None:
        tenacity.sign_of_life()
        on_progress(done, of)

    with Sink(directory, files) as sink:
        while True:
            try:
                return _rest(run, files, sink, moved)
            except UnreachableError as lost:
                tenacity.recover(lost)


def _rest(run: Run, files: Sequence[Sent], sink: Sink, on_progress: Callable[[int, int], None]) -> Stream:
    """Bring what `sink` has not received yet."""
    begin, total = sink.received, sum(file.size for file in files)
    with contextlib.ExitStack() as on_failure:
        stream = on_failure.enter_context(run.send(begin))
        header = next(events(stream, STALL_S), None)
        if header is None and stream.status() == -1:
            raise UnreachableError("the connection broke")
        if header and header["stage"] == "end":
            raise from_agent(header["error"])
        if header is None or header.get("offset") != begin or sent_files(header.get("files"), _archive(files)) != files:
            raise TransferError("the host does not send what it announced", f"look at {run.directory} there")
        for block in stream.blocks(total - begin, STALL_S):
            sink.write(block)
            on_progress(sink.received, total)
        sink.verify()
        on_failure.pop_all()
    return stream


class Sink:
    """Consecutive bytes in, files out, digested on the way."""

    def __init__(self, directory: Path, files: Sequence[Sent]) -> None:
        self.received = 0
        self._pending = list(reversed(files))
        self._directory = directory
        self._digest, self._left = hashlib.sha256(), 0
        self._file: Any = None
        self._bad: list[str] = []
        self._next()

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def write(self, block: bytes) -> None:
        self.received += len(block)
        while block:
            piece, block = block[: self._left], block[self._left :]
            try:
                self._file.write(piece)
            except OSError as error:
                raise storage_error(self._directory, error) from error
            self._digest.update(piece)
            self._left -= len(piece)
            if not self._left:
                self._finish()

    def verify(self) -> None:
        """TransferError unless every file is whole and has its digest."""
        if self._left:
            self._bad.append(self._entry.name)
        if self._bad:
            raise TransferError(
                f"{', '.join(self._bad)} arrived damaged: the digest is not the host's", "bring it again"
            )

    def _next(self) -> None:
        while self._pending:
            self._entry = self._pending.pop()
            self._digest, self._left = hashlib.sha256(), self._entry.size
            try:
                self._file = open(self._directory / self._entry.name, "xb")  # noqa: SIM115, PTH123
            except OSError as error:
                raise storage_error(self._directory, error) from error
            if self._left:
                return
            self._finish_file()

    def _finish(self) -> None:
        self._finish_file()
        self._next()

    def _finish_file(self) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise storage_error(self._directory, error) from error
        finally:
            self._file.close()
        if self._digest.hexdigest() != self._entry.sha256:
            self._bad.append(self._entry.name)


def _archive(files: Sequence[Sent]) -> str:
    return next(file.name for file in files if file.name != LOG)


def _make_room(directory: Path, size: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < size + MARGIN_BYTES:
        raise StorageError(
            f"not enough space in {directory}: need {(size + MARGIN_BYTES) >> 20} MiB, have {free >> 20} MiB",
            "free some, or write elsewhere with --out",
        )
