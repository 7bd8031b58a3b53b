"""The wire protocol between a run and whoever follows it: one JSON object a line.

On disk (`events.jsonl`) an event stands alone on its line, numbered from 1 by `seq`, stamped by `time` (epoch seconds).
On the wire it is led by `MARK`, which no login banner prints; every line without it is noise.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Tuple

from .failure import Failure

MARK = "::collect-remote:: "
PIPE_VARIABLE = "COLLECT_REMOTE_EVENTS"
GATE_VARIABLE = "COLLECT_REMOTE_GATE"
HEARTBEAT_S = 5.0
GATES = ("loaded", "recorded")  # after these the program waits until the supervisor has looked at the device

Event = Dict[str, Any]
Emit = Callable[..., None]


def encode(event: Event) -> str:
    return json.dumps(event, separators=(",", ":"))


def on_wire(event: Event) -> str:
    return MARK + encode(event) + "\n"


def failed(failure: Failure) -> Event:
    """The last event of a run that came to nothing."""
    return {"stage": "end", "status": "failed", "error": failure.to_json(), "log": []}


def begin(path: str) -> None:
    """The journal of a new run, with its first event."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(encode({"seq": 1, "time": round(time.time(), 6), "stage": "created"}) + "\n")


class Journal:
    """The append-only event file of one run, which `begin` has made; its only writer is the run's supervisor."""

    def __init__(self, path: str) -> None:
        self.events = read(path)
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - open for the life of the run

    def write(self, **fields: Any) -> Event:
        event = {"seq": len(self.events) + 1, "time": round(time.time(), 6), **fields}
        self.events.append(event)
        self._file.write(encode(event) + "\n")
        self._file.flush()
        return event

    def close(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()


def read(path: str) -> List[Event]:
    """All events of a journal."""
    return [event for event in map(decode, complete_lines(path, 0)) if event]


def decode(line: str) -> Event:
    """The event on a line; none, {}, for one that a power cut has left behind."""
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) and {"seq", "stage"} <= set(event) else {}


def complete_lines(path: str, offset: int) -> Iterator[str]:
    """The whole lines of a growing file from a byte offset; a last line without its newline is left for later."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        yield from more_lines(file, offset)


def more_lines(file: BinaryIO, offset: int) -> Iterator[str]:
    """The same of a file that is open, and may have been removed since."""
    file.seek(offset)
    data = file.read()
    for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
        yield line.decode("utf-8", "replace")


@contextlib.contextmanager
def beating() -> Iterator[None]:
    """A heartbeat to stdout every few seconds, while something goes on that has nothing to say."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(HEARTBEAT_S):
            sys.stdout.write(on_wire({"stage": "heartbeat"}))
            sys.stdout.flush()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Voice:
    """What a program reports to its supervisor over a pipe. It waits at a gate until the supervisor has looked."""

    def __init__(self, pipe: int, gates: Dict[int, int], lead: int) -> None:
        """`gates` by rank, of those that this process speaks for; the run's `lead` has no need to say its rank."""
        self._pipe, self._gates, self._lead = pipe, gates, lead

    def say(self, stage: str, **fields: Any) -> None:
        os.write(self._pipe, (encode({"stage": stage, **fields}) + "\n").encode())

    def say_of(self, rank: int, stage: str, **fields: Any) -> None:
        self.say(stage, **fields, **({} if rank == self._lead else {"rank": rank}))

    def gate(self, stage: str, **fields: Any) -> None:
        for rank in self._gates:
            self.say_of(rank, stage, **fields)
        for descriptor in self._gates.values():
            os.read(descriptor, 1)

    def emit(self, stage: str, **fields: Any) -> None:
        """As the one rank that this process is; an error is that rank's, whichever it is."""
        (rank,) = self._gates
        if stage in GATES:
            self.gate(stage, **fields)
        elif stage == "error":
            self.say(stage, **fields, rank=rank)
        else:
            self.say_of(rank, stage, **fields)


def inherited_voice() -> Voice:
    """Of the program that the supervisor has started, which speaks for every rank."""
    pipe, gates = _inherited()
    return Voice(pipe, gates, min(gates))


def inherited_emitter() -> Emit:
    """Of the one program that the supervisor has started, or of a rank that torchrun has started for it.

    torchrun gives its ranks no descriptors (subprocess's close_fds); it has them itself, and they are opened there.
    """
    pipe, gates = _inherited()
    lead = min(gates)
    if "RANK" not in os.environ:
        return Voice(pipe, {lead: gates[lead]}, lead).emit
    rank = int(os.environ["RANK"])
    there = "/proc/{}/fd/{}".format(os.getppid(), "{}")
    opened = os.open(there.format(pipe), os.O_WRONLY), os.open(there.format(gates[rank]), os.O_RDONLY)
    return Voice(opened[0], {rank: opened[1]}, lead).emit


def _inherited() -> Tuple[int, Dict[int, int]]:
    """The pipe, and the gate of every rank."""
    named = (entry.split(":") for entry in os.environ[GATE_VARIABLE].split(","))
    return int(os.environ[PIPE_VARIABLE]), {int(rank): int(gate) for rank, gate in named}
