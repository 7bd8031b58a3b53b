"""One host of a job: its run, from the survey to what it has recorded, in a thread of its own.

It tells the job, in whose thread everything is decided, and waits for it three times: before its run is started, at the
meetings of the runs (which the job lets go on), and with its result, until that of all hosts is published.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from collect_agent.events import Event

from ..cancel import Cancel
from ..collection.pipeline import Decided, new_run_id, planned
from ..collection.session import Log, session
from ..errors import CollectError, Interrupted, UnreachableError, internal
from ..inventory import Host, ModelSpec
from ..parallel import in_background
from ..request import Request
from ..results import store

if TYPE_CHECKING:
    from ..collection.bring import Brought
    from ..collection.run import Run

AGAIN_S = 0.5  # after which a run is told once more to go on: who follows it gets a lost connection back


class Job(Protocol):
    """What hears of a node, in whichever thread; `go`, `published`: set when the nodes may go on."""

    go: threading.Event
    published: threading.Event
    in_vain: bool

    def tell(self, hear: Callable[[], None], /) -> None: ...
    def event(self, node: Node, event: Event, /) -> None: ...
    def ready(self, node: Node, /) -> None: ...
    def brought(self, node: Node, result: Brought, /) -> None: ...
    def failed(self, node: Node, error: CollectError, /) -> None: ...
    def over(self, node: Node, /) -> None: ...


@dataclass(eq=False)
class Node:
    """`decided`: before a host was asked. `directory`: here, for what it has recorded. `first`: of the job's hosts.

    is_started: its run may be there from now on. is_over: nothing more is done for it here.
    """

    request: Request
    host: Host
    model: ModelSpec
    decided: Decided
    directory: Path
    first: Host
    cancel: Cancel = field(default_factory=Cancel)
    run_id: str = field(default_factory=new_run_id)
    run: Run | None = None
    log: Log | None = None
    is_started: bool = False
    is_over: bool = False

    def start(self, job: Job) -> None:
        threading.Thread(target=self._work, args=(job,), daemon=True).start()

    def meet(self, job: Job, number: int, port: int) -> None:
        """Let the run go on, in a thread of its own."""
        in_background(lambda: self._meet(job, number, port))

    def _work(self, job: Job) -> None:
        try:
            with session(self.host, functools.partial(self._tell, job), self.cancel) as (remote, log):
                self.log = log
                known = (self.request, self.host, self.model, self.decided, self.run_id)
                self.run, asked = planned(*known, remote, log, first=self.first)
                job.tell(lambda: job.ready(self))
                self._wait_for(job.go)
                self._part(job, self.run, asked, log)
        except CollectError as error:
            self._fail(job, error)
        except Exception as error:  # noqa: BLE001 - the job has to hear of it
            self._fail(job, internal(error))
        job.tell(lambda: job.over(self))

    def _tell(self, job: Job, event: Event) -> None:
        job.tell(lambda: job.event(self, event))

    def _fail(self, job: Job, error: CollectError) -> None:
        error.host = error.host or self.host.name
        job.tell(lambda: job.failed(self, error))

    def _part(self, job: Job, run: Run, asked: dict[str, object], log: Log) -> None:
        from ..collection.bring import brought

        own = store.place(self.host.name, self.request.model, self.run_id)
        self.directory.mkdir()
        self.is_started = True
        try:
            with brought(run, dataclasses.replace(own, incoming=self.directory), asked, log) as result:
                job.tell(lambda: job.brought(self, result))
                self._wait_for(job.published)
        except KeyboardInterrupt:
            if job.in_vain:
                with suppress(CollectError):
                    run.stop()
                    run.remove()
                    log.kept = ""
            raise

    def _wait_for(self, event: threading.Event) -> None:
        """KeyboardInterrupt, when we are to leave."""

        def ask(seconds: float) -> None:
            if not event.wait(seconds):
                raise TimeoutError

        self.cancel.wait(ask, float("inf"))

    def _meet(self, job: Job, number: int, port: int) -> None:
        assert self.run is not None  # noqa: S101 - it has come to the meeting
        while not self.is_over:
            try:
                self.run.meet(number, port)
            except UnreachableError:
                time.sleep(AGAIN_S)
            except KeyboardInterrupt:
                return
            except CollectError as error:
                self._fail(job, error)
                return
            else:
                return

    @property
    def is_lost(self) -> bool:
        """Its run may be there, and the connection to it is not: it is tried again meanwhile."""
        return self.is_started and not self.is_over and self.run is not None and not self.run.remote.is_open

    def left(self, error: CollectError | None) -> str:
        """What there is of its run on the host after `error` ended this, in words; nothing where there is none."""
        if self.run is None or not self.is_started:
            return ""
        if self.log is not None and self.log.kept:
            return self.log.kept
        if not self.is_over:
            return f"run {self.run.id} may still be going on: {self.run.how_to_go_on}"
        told = isinstance(error, Interrupted) and not self.run.stopped
        return words(error) if error and told else ""


def words(error: CollectError) -> str:
    """An Interrupted among others."""
    return error.message.removeprefix("interrupted: ")
