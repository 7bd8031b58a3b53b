"""Pulling the files of a run: resumable, every length and digest checked, an end of stream never trusted.

Digests are taken of what lies on the disk, not while it comes: a processor that decrypts has enough to do, and what an
earlier tool has brought is in them too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from collect_agent.output.archive import digest_file

from ..errors import StorageError, TransferError, UnreachableError, storage_error
from ..ssh.stream import Stream
from ..ssh.tenacity import Tenacity
from .run import Over, Run, events, failed
from .wire import LOG, Sent, sent_files

STALL_S = 60.0
POURED_BYTES = 256 * 1024 * 1024  # from which on a command of its own for them is the quicker way
MARGIN_BYTES = 16 * 1024 * 1024


def pull(run: Run, sink: Sink, on_progress: Callable[[int, int], None]) -> Stream:
    """Bring what `sink` expects, and whatever else the run has to send by its end, whole and verified.

    Returns the stream, on which `ok` may be sent to have the run removed from the host. StorageError when there is no
    room here, TransferError when what came is not what was announced, UnreachableError when the host stays away; Over
    when the run ends badly meanwhile.
    """
    tenacity = Tenacity(run.remote, run.reconnect_for)

    def moved() -> None:
        tenacity.sign_of_life()
        on_progress(sink.received, sink.received + sink.left)

    pours = True  # as long as that brings something
    while True:
        before = sink.received
        try:
            if pours:
                _pour(run, sink, moved)
            return _rest(run, sink, moved)
        except UnreachableError as lost:
            pours = sink.received > before
            tenacity.recover(lost)


def _pour(run: Run, sink: Sink, moved: Callable[[], None]) -> None:
    """Bring what is left of a large file by a command of its own, as far as that goes: what it lacks is sent after it.

    That also tells why it was lacking.
    """
    if sink.left < POURED_BYTES:
        return
    with sink.writing() as (file, length), contextlib.suppress(TransferError):
        stream = run.pour(sink.received, file)
        if stream is not None:
            with stream:
                stream.go()
                run.remote.prepare()  # for what is sent after it
                for _ in stream.copy(file, length, STALL_S):
                    moved()


def _rest(run: Run, sink: Sink, moved: Callable[[], None]) -> Stream:
    """Bring what `sink` has not received yet."""
    with contextlib.ExitStack() as on_failure:
        stream = on_failure.enter_context(run.send(sink.received))
        while not sink.has(LOG):
            sink.expect(_announced(run, stream, sink))
            while sink.left:
                with sink.writing() as (file, length):
                    for _ in stream.copy(file, length, STALL_S):
                        moved()
        on_failure.pop_all()
    return stream


def _announced(run: Run, stream: Stream, sink: Sink) -> tuple[Sent, ...]:
    """The files of the next header; while the host still reads an archive back, it beats."""
    for event in events(stream, STALL_S):
        if event["stage"] == "end" and event["status"] != "done":
            raise Over(failed(event))
        if event["stage"] == "send":
            files = sent_files(event["files"], sink.archive, ended=False)
            if event["offset"] != sink.received:
                break
            return files
    else:
        if stream.status() == -1:
            raise UnreachableError("the connection broke")
    raise TransferError("the host does not send what it announced", f"look at {run.directory} there")


class Sink:
    """Where the files go, one after the other; what is in `directory` already of the first, the archive, is kept.

    `files` are announced and may become more; `on_whole` is called with each when all of it is here, to `verify` it.
    """

    def __init__(self, directory: Path, files: tuple[Sent, ...], on_whole: Callable[[Sent], None]) -> None:
        self.files: tuple[Sent, ...] = ()
        self.archive = files[0].name
        self._directory, self._on_whole = directory, on_whole
        self._whole = 0  # files
        self._file: int | None = None
        self.expect(files)

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def received(self) -> int:
        """Bytes that are here, in their order."""
        return sum(file.size for file in self.files[: self._whole]) + self._here()

    @property
    def left(self) -> int:
        """Bytes of what was announced."""
        return sum(file.size for file in self.files) - self.received

    def has(self, name: str) -> bool:
        return name in (file.name for file in self.files[: self._whole])

    def expect(self, files: tuple[Sent, ...]) -> None:
        """TransferError unless these are the files that were announced before, and maybe more."""
        if files[: len(self.files)] != self.files:
            raise TransferError(
                "the host announces other files than before", "do not trust this host before you know why"
            )
        _make_room(self._directory, files)
        self.files = files
        self._next()

    @contextlib.contextmanager
    def writing(self) -> Iterator[tuple[int, int]]:
        """The file that is brought now, and the bytes that it lacks, which are to be written within the block.

        StorageError when they cannot be; what `on_whole` raises of a file.
        """
        assert self._file is not None  # noqa: S101 - something is left
        try:
            yield self._file, self.files[self._whole].size - self._here()
        except OSError as error:
            raise storage_error(self._directory, error) from error
        self._next()

    def _here(self) -> int:
        """Bytes of the file that is brought now: what was written counts, also when that ended badly."""
        return 0 if self._file is None else os.fstat(self._file).st_size

    def _next(self) -> None:
        """Finish the file that is complete, and go on to the next."""
        while self._whole < len(self.files):
            if self._file is None:
                self._open(self.files[self._whole])
            if self._here() < self.files[self._whole].size:
                return
            self._finish(self.files[self._whole])

    def _open(self, entry: Sent) -> None:
        path = self._directory / entry.name
        try:
            if os.path.lexists(path) and (self._whole or path.lstat().st_size > entry.size):
                path.unlink()
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise storage_error(self._directory, error) from error

    def _finish(self, entry: Sent) -> None:
        try:
            if self._file is not None:
                os.fsync(self._file)
        except OSError as error:
            raise storage_error(self._directory, error) from error
        finally:
            self._close()
        self._whole += 1
        self._on_whole(entry)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def verify(directory: Path, file: Sent) -> None:
    """TransferError when it is not what was announced; it is removed then, for nobody is to go on with it."""
    path = directory / file.name
    if digest_file(str(path)) != (file.size, file.sha256):
        path.unlink()
        raise TransferError(f"{file.name} arrived damaged: the digest is not the host's", "bring it again")


def _make_room(directory: Path, files: tuple[Sent, ...]) -> None:
    """StorageError where there is none for what is not here yet."""
    here = sum(path.stat().st_size for path in (directory / file.name for file in files) if path.is_file())
    size = max(0, sum(file.size for file in files) - here) + MARGIN_BYTES
    free = shutil.disk_usage(directory).free
    if free < size:
        raise StorageError(
            f"not enough space in {directory}: need {size >> 20} MiB, have {free >> 20} MiB",
            "free some, or write elsewhere with --out",
        )
