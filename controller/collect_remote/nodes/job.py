"""One job on several hosts: a run on each, all of them or nothing; what they record becomes one result.

One thread decides. It hears of every host (see `node`), lets the runs go on from their meetings when all have come,
and ends all of them when one fails.
"""

from __future__ import annotations

import dataclasses
import functools
import queue
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from collect_agent.events import Event
from collect_agent.output.manifest import stages
from collect_agent.run.rundir import ARCHIVE

from ..collection import pipeline
from ..collection.launch import place_in_job
from ..collection.session import Log, OnEvent
from ..errors import CollectError, EnvironmentUnfit, Interrupted, NoFreeDevice, ProfileInvalid, RunFailed, UsageError
from ..inventory import Host, ModelSpec
from ..parallel import at_once
from ..request import Request
from ..results import growing, store
from ..results.profile import Profile
from ..routes.choose import early, gives_way, in_place_of, model_of
from ..ssh.troubles import LOST
from .merge import Part, merge
from .node import Node, words

if TYPE_CHECKING:
    from ..collection.bring import Brought

TICK_S = 0.2
LEAVE_S = 60.0  # for runs that were asked to end
QUIET_S = 1.0  # for hosts on which nothing was started
GRACE_S = 5.0  # for the host that is the cause, when another has noticed it first
# What a process says when one on another host has gone: gloo, torchrun's store, HCCL (EI0002, EI0006).
_OF_A_PEER = re.compile(r"[Cc]onnection (?:reset|closed|refused)|closed by peer|Broken pipe|Dist\w*Error|\bEI000[26]\b")


def collect_job(request: Request, hosts: Sequence[Host], on_event: OnEvent | None = None) -> Profile:
    """Collect one profile of a job on `hosts`, the first of which is its master, and publish it under that one's name.

    `on_event` is called in this thread with every event; `node` is the host that it is of. Raises the CollectError that
    says on which host what went wrong: then nothing is published, and what ran on the others is ended.
    KeyboardInterrupt ends all of it and becomes Interrupted.
    """
    nodes = _nodes(request, hosts)
    models = [model_of(asked, host) for asked, host in nodes]
    ready = [early(asked, model) for (asked, _), model in zip(nodes, models, strict=True)]
    try:
        return _Job(nodes, models, ready, on_event).collect()
    except CollectError as error:
        others = [model.fallback for model in models if model.fallback is not None]
        if len(others) < len(models) or not gives_way(error):
            raise
        Log(on_event)(stage="fallback", instead_of=models[0].route, message=error.message, entry=error.entry)
        again = [in_place_of(model, error.message, asked) for (asked, _), model in zip(nodes, models, strict=True)]
        return _Job(nodes, others, again, on_event).collect()


def preview_job(request: Request, hosts: Sequence[Host], on_event: OnEvent | None = None) -> list[pipeline.Preview]:
    """What would be done on each of the hosts, in their order; nothing is uploaded or started."""
    nodes, one_by_one = _nodes(request, hosts), threading.Lock()

    def tell(host: Host, event: Event) -> None:
        if on_event:
            with one_by_one:
                on_event({**event, "node": host.name})

    return at_once(lambda node: pipeline.preview(*node, functools.partial(tell, node[1]), first=hosts[0]), nodes)


def _nodes(request: Request, hosts: Sequence[Host]) -> list[tuple[Request, Host]]:
    """What is asked of each host. UsageError for what cannot be asked of several."""
    names = tuple(host.name for host in hosts)
    if request.salvage:
        raise UsageError(
            "--salvage does not go with --nodes: of a job there is all or nothing",
            "look at the host that the error names",
        )
    nodes = [(dataclasses.replace(request, host=host.name, nodes=names), host) for host in hosts]
    for asked, _ in nodes:
        place_in_job(asked, hosts[0])
    return nodes


def _only_noticed(error: CollectError) -> bool:
    return isinstance(error, RunFailed) and _OF_A_PEER.search(error.message) is not None


def _away(host: str, noticed: CollectError) -> CollectError:
    """The connection to `host` is lost, and another host has `noticed` that its processes have gone as well."""
    error = LOST(host=host, why=f", and on {noticed.host} {noticed.message}")
    error.host, error.remedy = host, "see what has become of that host"
    return error


class _Job:
    """One attempt."""

    def __init__(
        self,
        asked: Sequence[tuple[Request, Host]],
        models: Sequence[ModelSpec],
        decided: Sequence[pipeline.Decided],
        on_event: OnEvent | None,
    ) -> None:
        (request, first), *_ = asked
        run_id = pipeline.new_run_id()
        self._place = store.place(first.name, request.model, run_id, request.out)
        self._on_event, self._log = on_event, Log(on_event)
        self._nodes = [
            Node(each, host, model, ready, self._place.incoming / f"node-{each.node_rank}", first)
            for (each, host), model, ready in zip(asked, models, decided, strict=True)
        ]
        self._nodes[0].run_id = run_id
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._ready: set[Node] = set()
        self._met: dict[int, set[Node]] = {}
        self._port = 0
        self._brought: dict[Node, Brought] = {}
        self._errors: dict[Node, CollectError] = {}
        self.go, self.published, self.in_vain = threading.Event(), threading.Event(), False

    def collect(self) -> Profile:
        with growing.incoming(self._place):
            try:
                for node in self._nodes:
                    node.start(self)
                self._until(lambda: len(self._brought) == len(self._nodes))
                result = self._publish()
                self.published.set()
                self._settle()
            except KeyboardInterrupt as interrupt:
                raise self._interrupted() from interrupt
            except CollectError as error:
                self._end(error)
                raise
            except BaseException:
                self._leave()
                raise
        return result

    def _publish(self) -> Profile:
        """The one result of all hosts. The errors of `merge`, StorageError."""
        parts = [Part(node.host.name, node.directory, self._brought[node].manifest) for node in self._nodes]
        try:
            whole = merge(parts, self._place.incoming, self._log)
            self._log(stage="publish")
            of_first = self._nodes[0].log
            told = [*(of_first.events if of_first else []), *self._log.events]
            manifest = {**whole.manifest, "archive": dataclasses.asdict(whole.files[0]), "stages": stages(told)}
            store.publish(self._place, manifest)
        except CollectError as error:
            error.stage, error.host = error.stage or self._log.stage, error.host or self._nodes[0].host.name
            raise
        return Profile(self._place.final, manifest, self._place.final / ARCHIVE)

    # What the nodes say; all of it is heard in the thread that decides.

    def tell(self, hear: Callable[[], None]) -> None:
        self._inbox.put(hear)

    def event(self, node: Node, event: Event) -> None:
        if event["stage"] == "meet":
            self._port = event.get("port", self._port)
            there = self._met.setdefault(event["number"], set())
            there.add(node)
            if len(there) == len(self._nodes):
                for each in self._nodes:
                    each.meet(self, event["number"], self._port)
        if self._on_event:
            self._on_event({**event, "node": node.host.name})

    def ready(self, node: Node) -> None:
        self._ready.add(node)
        if len(self._ready) == len(self._nodes):
            self.go.set()

    def brought(self, node: Node, result: Brought) -> None:
        self._brought[node] = result

    def failed(self, node: Node, error: CollectError) -> None:
        self._errors.setdefault(node, error)

    def over(self, node: Node) -> None:
        node.is_over = True

    # The decisions.

    def _until(self, done: Callable[[], bool]) -> None:
        """Hear the nodes until it is done. The error of the first that fails."""
        while not done():
            self._hear()
            if self._errors:
                raise self._cause()

    def _hear(self) -> None:
        try:
            self._inbox.get(timeout=TICK_S)()
        except queue.Empty:
            return

    def _hear_until(self, done: Callable[[], bool], seconds: float) -> None:
        until = time.monotonic() + seconds
        while not done() and time.monotonic() < until:
            self._hear()

    def _cause(self) -> CollectError:
        """The first error, unless it only says that a process on another host has gone.

        That may be one of a host that is away itself: nobody else can tell.
        """
        first = next(iter(self._errors.values()))
        if _only_noticed(first):
            self._hear_until(lambda: len(self._errors) > 1, GRACE_S)
        own = [error for error in self._errors.values() if not _only_noticed(error)]
        lost = [node.host.name for node in self._nodes if node.is_lost]
        if lost and not own:
            return _away(lost[0], first)
        return (own or [first])[0]

    def _end(self, cause: CollectError) -> None:
        """End what runs on the other hosts, and say in the remedy of `cause` what could not be ended.

        What they have recorded is of no use when the job itself has failed; it is kept when only its bringing has.
        """
        self.in_vain = cause.of_run or isinstance(cause, (NoFreeDevice, EnvironmentUnfit, RunFailed, ProfileInvalid))
        self._leave()
        told = [node.left(error) for node in self._nodes if (error := self._errors.get(node)) is not cause]
        cause.remedy = "; ".join(dict.fromkeys(filter(None, (cause.remedy, *told))))

    def _leave(self) -> None:
        for node in self._nodes:
            node.cancel.set()
        quiet = [node for node in self._nodes if node.run is None]
        self._hear_until(lambda: all(node.is_over for node in self._nodes if node not in quiet), LEAVE_S)
        self._hear_until(lambda: all(node.is_over for node in quiet), QUIET_S)

    def _interrupted(self) -> Interrupted:
        if self.published.is_set():
            return Interrupted(f"interrupted: the result is in {self._place.final}")
        try:
            self._leave()
        except KeyboardInterrupt:
            said = [node.left(self._errors.get(node)) for node in self._nodes]
            return Interrupted(f"interrupted again: {'; '.join(filter(None, said)) or 'nothing was started'}")
        errors = [self._errors.get(node) for node in self._nodes]
        said = [words(error) if error else node.left(None) for node, error in zip(self._nodes, errors, strict=True)]
        remedies = [error.remedy for error in errors if error]
        return Interrupted(
            f"interrupted: {'; '.join(dict.fromkeys(filter(None, said))) or 'nothing was started'}",
            "; ".join(dict.fromkeys(filter(None, remedies))),
        )

    def _settle(self) -> None:
        """Until the hosts have removed their runs; the result stands, whatever becomes of that."""
        self._hear_until(lambda: all(node.is_over for node in self._nodes), LEAVE_S)
