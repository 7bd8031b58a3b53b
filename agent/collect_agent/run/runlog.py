"""The log of a run: what its program prints, whatever becomes of the file meanwhile, and never endless.

The program writes to the file itself, so that nothing of ours can make it wait. What is too much is taken out of the
middle: while it runs its room alone, for the file's positions are the program's, and in the end the bytes.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil

from .rundir import RunDir

BLOCK = 1 << 20
FIRST_BYTES, LAST_BYTES = 16 << 20, 48 << 20  # of a longer log; what lies between is left out
SLACK_BYTES = 16 << 20  # more than that before it is worth the work
LEFT_OUT = "\n--- {} bytes are left out here: the log of a run keeps its first {} and its last {} MiB ---\n"
LINE_BYTES = 1 << 16  # looked through for the end of a line where a part begins
_PUNCH_HOLE = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, fallocate(2)
_CURSOR = re.compile(rb"[^\n]?\x08")


class Relief:
    """Gives back the room that the middle of a growing log takes on its disk.

    Where the file system has no holes (an old NFS) the log takes what the program prints, until the run ends.
    """

    def __init__(self, descriptor: int) -> None:
        """`descriptor`: the log, open for writing."""
        self._descriptor, self._until = descriptor, FIRST_BYTES

    def __call__(self) -> None:
        end = os.fstat(self._descriptor).st_size - LAST_BYTES
        if end - self._until > SLACK_BYTES and _punch(self._descriptor, self._until, end):
            self._until = end


def _punch(descriptor: int, begin: int, end: int) -> bool:
    where = ctypes.c_int64(begin), ctypes.c_int64(end - begin)
    return ctypes.CDLL(None).fallocate(descriptor, _PUNCH_HOLE, *where) == 0  # type: ignore[no-any-return]


def restore(run: RunDir) -> None:
    """Write the log again when it was removed: it is still open as our stdout. Later output goes to the new file."""
    if os.path.exists(run.log):
        return
    with open("/proc/self/fd/1", "r+b") as lost, open(run.log, "ab") as log:
        _cut(lost.fileno())
        shutil.copyfileobj(lost, log)
        log.flush()
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)


def cut(run: RunDir) -> None:
    """Take the middle out of a log that is too long, once nobody writes to it: a line says so in its place."""
    with open(run.log, "r+b") as log:
        _cut(log.fileno())


def _cut(log: int) -> None:
    size = os.fstat(log).st_size
    if size <= FIRST_BYTES + LAST_BYTES + SLACK_BYTES:
        return
    first = FIRST_BYTES - LINE_BYTES
    first += os.pread(log, LINE_BYTES, first).rfind(b"\n") + 1 or LINE_BYTES  # else in the middle of a line
    last = size - LAST_BYTES
    last += os.pread(log, LINE_BYTES, last).find(b"\n") + 1
    note = LEFT_OUT.format(last - first, FIRST_BYTES >> 20, LAST_BYTES >> 20).encode()
    written = first + os.pwrite(log, note, first)
    while last < size:  # the part is far behind where it goes
        block = os.pread(log, BLOCK, last)
        last, written = last + len(block), written + os.pwrite(log, block, written)
    os.ftruncate(log, written)


def without_cursor(text: bytes) -> bytes:
    """What was printed, without what a backspace behind it has taken away."""
    return _CURSOR.sub(b"", text)


def tidy(run: RunDir) -> None:
    """Take out of the log, in place, what backspaces have taken back: torch_npu's parser turns a cursor in it."""
    with open(run.log, "r+b") as log:
        read = written = 0
        held = b""
        while True:
            log.seek(read)
            data = log.read(BLOCK)
            read += len(data)
            text = without_cursor(held + data)
            keep = len(text) - bool(data)  # the next block may take back the last letter
            log.seek(written)
            written += log.write(text[:keep])
            held = text[keep:]
            if not data:
                break
        log.truncate()
