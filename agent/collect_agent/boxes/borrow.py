"""A run in a container, as it has its devices from the host: it asks its keeper there, line by line in two files.

    supervisor ─ asked.jsonl ─► bridge ─ docker exec ─► keeper on the host: leases, looks at the devices
               ◄─ answered.jsonl ─

`keeper` is the other end, `bridge` carries the lines. Questions are numbered, and asked again whenever the way between
has broken; an answer is the same then.
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any, Callable, Dict, Iterator, Optional

from .. import events
from ..failure import Failure
from ..npu import lease, presence
from ..npu.interpret import interpret
from ..run import process
from ..run.rundir import RunDir
from ..troubles import NO_KEEPER

POLL_S = 0.03
START_S = 120.0  # for the keeper to find the run
LOST_S = 60.0  # without a way to the keeper, which tries again all the time
LOOK_S = 90.0  # npu-smi has half of it
RELEASE_S = 15.0


class Loan(lease.Leases):
    """The devices of a run in a container, whose leases the host holds: there are no descriptors to inherit."""

    def __init__(self, run: RunDir, name: str) -> None:
        super().__init__([], [])
        self._run, self._name = run, name
        self._number = self._offset = 0
        self._needed, self._carried = True, False
        self._alone_since = time.monotonic()

    def acquire(self, emit: Callable[..., Any]) -> Loan:
        """Have the devices leased; what the host says while it waits is emitted. Failure: the host's own words."""
        for answer in self._ask("acquire"):
            if "wait" in answer:
                emit(stage="wait", **answer["wait"])
            else:
                self.devices = answer["devices"]
        return self

    def look(self, when: str) -> presence.Moment:
        """Who is on the devices, by the host's view (see `presence.look`)."""
        own = [[pid, process.start_time(pid)] for pid in process.of_run(self._run.id)]
        try:
            (answer,) = self._ask("look", LOOK_S, own=own)
            seen, ours = answer["seen"], answer["own"]
            # Where none of ours is found by its number, the rows may have those of another namespace.
            foreign = seen["in_container"] or not ours
            devices = interpret(seen)
        except Failure as failure:
            return {"when": when, "error": failure.message}
        return {"when": when, "own": set(ours), "in_container": foreign, "devices": devices}

    def release(self) -> None:
        """Nothing of the run is on the devices any more. Where the host cannot be told, it sees that the run ended,
        and a host that is still choosing sees it as well."""
        if self._needed and self.devices and self._is_carried():
            with contextlib.suppress(Failure):
                for _ in self._ask("release", RELEASE_S):
                    pass
        self._needed = False

    def check(self) -> None:
        """Failure when the host does not keep the devices for us any more. To be called now and then."""
        if self._is_carried():
            self._carried, self._alone_since = True, time.monotonic()
        elif self._needed and time.monotonic() - self._alone_since > (LOST_S if self._carried else START_S):
            raise NO_KEEPER(container=self._name)

    def _is_carried(self) -> bool:
        return process.recorded(self._run.bridge) is not None

    def _ask(self, what: str, seconds: Optional[float] = None, **more: Any) -> Iterator[Dict[str, Any]]:
        """The answers to one question, the last with `done`. Failure: what the host answers, or no answer in time."""
        self._number += 1
        question = dict(more, id=self._number, ask=what)
        with open(self._run.asked, "a", encoding="utf-8") as file:
            file.write(events.encode(question) + "\n")
        until = float("inf") if seconds is None else time.monotonic() + seconds
        while time.monotonic() < until:
            for line in events.complete_lines(self._run.answered, self._offset):
                self._offset += len(line.encode())
                answer = json.loads(line)
                if answer["id"] != self._number:
                    continue
                if "failure" in answer:
                    raise Failure(**answer["failure"])
                yield answer
                if "done" in answer:
                    return
            time.sleep(POLL_S)
        raise Failure("RunFailed", "the host did not answer within {:g} s".format(seconds or 0.0))
