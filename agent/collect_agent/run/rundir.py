"""The files of one run on the host. The only place that knows their names, and how to make such names last."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict

from .. import events

ARCHIVE = "profile_l1.tar.gz"
PARTIAL = "profile_l1.partial.tar.gz"  # of a profile that is not valid
ID = re.compile(r"[0-9]{8}_[0-9]{6}_[0-9a-f]{6}")  # of a run: when it was asked for, and something random
RESERVE_BYTES = 256 * 1024  # given back to a full disk, so that the end of the run can still be told


class RunDir:
    """`<workdir>/runs/<run id>`: plain characters only, a real path, readable by its owner and group."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        self.plan = self._in("plan.json")
        self.events = self._in("events.jsonl")
        self.log = self._in("run.log")
        self.pid = self._in("pid.json")
        self.followed = self._in("followed")
        self.stop = self._in("stop")  # asks a supervisor that cannot be reached otherwise
        self.stopped = self._in("stopped")  # marks a run that was stopped before it started
        self.work = self._in("work")
        self.profile = self._in("profile")
        # Of a program that is not ours: the start-up shim, what it writes, and the file that it waits for.
        self.shim = self._in("shim")
        self.receipts = self._in("receipts")
        self.gate = self._in("receipts", "go")
        self.archive = self._in(ARCHIVE)
        self.partial = self._in(PARTIAL)
        self.copies = self._in("copies")
        self.changed = self._in("changed.json")  # which file of the user's, and what it was
        self.reserve = self._in("reserve")
        # In a container: what the run asks its keeper on the host, what that answers, and who carries it.
        self.asked = self._in("asked.jsonl")
        self.answered = self._in("answered.jsonl")
        self.bridge = self._in("bridge.json")

    @property
    def id(self) -> str:
        return os.path.basename(self.path)

    def met(self, number: int) -> str:
        """Is there when all parts of the job have come to this meeting: see `together`."""
        return self._in("met.{}".format(number))

    def _in(self, *names: str) -> str:
        return os.path.join(self.path, *names)

    def create(self, plan: Dict[str, Any]) -> None:
        """Make the directory and the plan's files."""
        os.makedirs(os.path.dirname(self.path), mode=0o750, exist_ok=True)
        os.mkdir(self.path, 0o750)
        os.mkdir(self.work, 0o750)
        os.mkdir(self.profile, 0o750)
        # The owner's alone: the options of a model may hold what nobody else should read.
        for name, text in {**plan["files"], "plan.json": json.dumps(plan, indent=1)}.items():
            descriptor = os.open(self._in(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
        with open(self.reserve, "wb") as ballast:
            ballast.write(bytes(RESERVE_BYTES))
        events.begin(self.events)
        self.touch_followed()

    def read_plan(self) -> Dict[str, Any]:
        with open(self.plan, encoding="utf-8") as file:
            plan: Dict[str, Any] = json.load(file)
        return plan

    def touch_followed(self) -> None:
        """Somebody is following this run now: the orphan rule counts from here."""
        with open(self.followed, "w", encoding="utf-8"):
            pass


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Make the names in the directory `path` last through a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
