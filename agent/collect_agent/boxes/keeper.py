"""The host's part of a run in a container: it leases the devices there and looks who is on them.

On the host one sees the processes of all containers, and a lease is seen by all who collect there. The keeper leaves
the session, asks what the run wants through the container's engine (see `bridge`), and ends with the run: the leases
are held for exactly as long. A way that breaks is tried again as long as the container runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Dict, NoReturn, Optional

from .. import events
from ..failure import Failure
from ..npu import acquire, lease
from ..npu.look import look
from . import bridge, namespaces

PAUSE_S = (0.3, 10.0)
ENGINE_S = 30.0
_NO_SUCH = re.compile(r"no such (?:object|container)|no container with", re.IGNORECASE)


class _Over(Exception):
    """There is nothing to keep any more."""


def keep() -> int:
    """Read what to keep, one line of JSON on stdin, and become a keeper in the background.

    Of a plan (see `start`) it has what choosing needs; `bridge`: the command that carries, `state`: the one that prints
    whether the container runs. stdin stays open as long as somebody is about to start the run.
    """
    document = json.loads(sys.stdin.readline())
    if os.fork():
        return 0
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for own in (1, 2):
        os.dup2(null, own)
    try:
        Keeper(document).run()
    finally:
        os._exit(0)


class Keeper:
    """Answers in its main thread; another one listens and keeps the way open."""

    def __init__(self, document: Dict[str, Any]) -> None:
        self._plan = document
        self._held: Optional[lease.Leases] = None
        self._answers: Dict[int, Dict[str, Any]] = {}
        self._questions: queue.Queue[Dict[str, Any]] = queue.Queue()
        self._way: Optional[subprocess.Popen[bytes]] = None
        self._heard = self._start_is_over = False
        self._until = time.monotonic() + document["wait_s"] + document["deadline_s"] + acquire.LEASE_SLACK_S

    def run(self) -> None:
        """Keep until the run has ended; then nothing is held."""
        signal.signal(signal.SIGTERM, _over)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            threading.Thread(target=self._listen, daemon=True).start()
            while True:
                question = self._questions.get()
                number = question["id"]
                if number not in self._answers:
                    self._answers[number] = dict(self._answer(question), id=number, done=True)
                self._send(self._answers[number])
        except _Over:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        finally:
            self._release()
            if self._way is not None:
                self._way.kill()

    def _answer(self, question: Dict[str, Any]) -> Dict[str, Any]:
        try:
            if question["ask"] == "acquire":
                return {"devices": self._acquire(question["id"])}
            if question["ask"] == "look":
                seen = look(ask_torch=False)
                return {"seen": seen, "own": namespaces.pids_outside(question["own"])}
            self._release()
        except Failure as failure:
            return {"failure": failure.to_json()}
        except _Over:
            raise
        except Exception as error:  # noqa: BLE001 - whoever asked must be answered
            return {"failure": Failure("RunFailed", "the agent failed on the host: {!r}".format(error)).to_json()}
        return {}

    def _acquire(self, number: int) -> Any:
        def emit(stage: str, **fields: Any) -> None:
            self._send({"id": number, stage: fields})

        self._held = acquire.acquire(self._plan, self._plan["run_id"], emit)
        ids = dict(self._plan["container"]["logic_ids"])
        return [dict(device, inside=ids[device["logic"]]) for device in self._held.devices]

    def _release(self) -> None:
        if self._held is not None:
            self._held.release()

    def _send(self, answer: Dict[str, Any]) -> None:
        self._write(events.encode(answer))

    def _write(self, line: str) -> None:
        way = self._way
        if way is not None and way.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # it broke: the question comes again
                way.stdin.write(line.encode() + b"\n")
                way.stdin.flush()

    def _listen(self) -> None:
        """Keep a way to the run open until there is no run; then end the other thread's work."""
        pause = PAUSE_S[0]
        while time.monotonic() < self._until:
            status = self._carry()
            if status in (bridge.ENDED, bridge.BUSY, bridge.NEVER):
                break
            if self._start_is_over and not self._heard:
                break
            if not self._container_runs():
                break
            time.sleep(pause)
            pause = min(2 * pause, PAUSE_S[1]) if self._heard else pause
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    def _carry(self) -> int:
        """One way to the run, until it breaks or is not needed any more; the exit status of its end there."""
        try:
            way = subprocess.Popen(
                self._plan["bridge"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError:
            return 126
        self._way = way
        assert way.stdout is not None  # noqa: S101 - it is a pipe
        if self._start_is_over:
            self._write(bridge.OVER)
        rest = b""
        while True:
            sources = [way.stdout.fileno(), *([] if self._start_is_over else [0])]
            for source in select.select(sources, [], [])[0]:
                data = os.read(source, 1 << 16)
                if data and source != 0:
                    *lines, rest = (rest + data).split(b"\n")
                    self._take(lines)
                elif source == 0 and not data:
                    self._start_is_over = True
                    self._write(bridge.OVER)
                elif source != 0:
                    way.stdout.close()
                    return way.wait()

    def _take(self, lines: Any) -> None:
        for line in lines:
            with contextlib.suppress(ValueError):  # an engine may say something in between
                self._questions.put(json.loads(line))
                self._heard = True

    def _container_runs(self) -> bool:
        """Also where the engine does not answer: nobody knows, so the devices are kept."""
        try:
            asked = subprocess.run(
                self._plan["state"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=ENGINE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return True
        text = asked.stdout.decode("utf-8", "replace")
        return text.strip() != "false" if asked.returncode == 0 else not _NO_SUCH.search(text)


def _over(_number: int, _frame: Any) -> NoReturn:
    raise _Over
