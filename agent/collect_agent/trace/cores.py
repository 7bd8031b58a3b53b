"""Helper processes, one a core: Python's own threads would take turns."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Queue
from typing import Any, BinaryIO, Optional, cast

from .. import cpus
from .part import LENGTH
from .tally import Tally

MOST = 2  # with this process they stay below 64 MiB together, whatever there is to read
HELPER = "import sys; sys.path.insert(0, sys.argv[1]); from collect_agent.trace.part import main; main()"


class Helpers:
    """Processes that tally parts of a trace. One that dies, or cannot be started, counts as a part that is no list."""

    def __init__(self) -> None:
        self.count = min(cpus.count(), MOST)
        self._threads = ThreadPoolExecutor(self.count)
        self._idle: "Queue[Optional[_Helper]]" = Queue()
        for _ in range(self.count):
            self._idle.put(None)

    def __enter__(self) -> "Helpers":
        return self

    def __exit__(self, *exc: Any) -> None:
        self._threads.shutdown()
        while not self._idle.empty():
            helper = self._idle.get()
            if helper is not None:
                helper.close()

    def tally(self, part: bytes) -> "Future[Optional[Tally]]":
        """The tally of `part`; None when it is no list of events."""
        return self._threads.submit(self._tally, part)

    def _tally(self, part: bytes) -> Optional[Tally]:
        helper = self._idle.get()
        try:
            helper = helper or _Helper()
            return helper.tally(part)
        except (OSError, EOFError):
            return None
        finally:
            self._idle.put(helper)


class _Helper:
    """One process; it ends when its input does, so it never outlives this one."""

    def __init__(self) -> None:
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the zipapp, on a host
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", HELPER, root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._in = cast(BinaryIO, self._process.stdin)
        self._out = cast(BinaryIO, self._process.stdout)

    def tally(self, part: bytes) -> Optional[Tally]:
        self._in.write(LENGTH.pack(len(part)))
        self._in.write(part)
        self._in.flush()
        answer = self._out.read(*LENGTH.unpack(self._read(LENGTH.size)))
        return cast("Optional[Tally]", pickle.loads(answer))  # noqa: S301 - our own child wrote it

    def _read(self, size: int) -> bytes:
        data = self._out.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._in.close()
        self._process.kill()
        self._process.wait()
        self._out.close()
