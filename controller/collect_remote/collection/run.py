"""One run on a host, seen from here: start it, follow its events across lost connections, stop it, read its files."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from collect_agent.events import MARK, Event

from ..errors import CollectError, ConnectError, RunFailed, UnreachableError, from_agent, noise_error, one_line
from ..ssh.pour import Pour
from ..ssh.stream import Stream
from ..ssh.tenacity import Tenacity
from ..ssh.troubles import LOST
from ..survey.environment import restore
from . import wire
from .deploy import Deployed

SILENCE_S = 60.0  # the agent beats every five seconds
STOP_S = 30.0  # to get through to a host whose connection is lost, for somebody who wants to leave
ENDS = 5  # of a follower, one after the other, on a sound connection


class Run:
    """A run that was planned, or one that was started earlier.

    `document` is what the agent gets to start it: a plan and everything it needs to prove the result.
    `reconnect_for`: seconds after which a lost connection is given up.
    """

    def __init__(
        self, deployed: Deployed, run_id: str, reconnect_for: float, document: Mapping[str, Any] | None = None
    ) -> None:
        self.id, self.reconnect_for = run_id, reconnect_for
        self.remote = deployed.remote
        self.directory = f"{deployed.facts.workdir}/runs/{run_id}"  # on the host
        self._deployed, self._document = deployed, document
        self._after = self._ends = 0
        self.stopped = False  # by us, and that is proved

    @property
    def attach(self) -> str:
        """The command that follows it, from anywhere."""
        return f"collect-remote attach {self.id} --host {self.remote.host.name}"

    @property
    def how_to_go_on(self) -> str:
        """What can be done about a run that is left alone: one of a job on several hosts waits for the others."""
        ends = f"`{self.attach.replace('attach', 'stop', 1)}` ends it"
        return ends if self._document and self._document["node"] else f"`{self.attach}` follows it, {ends}"

    def events(self) -> Generator[Event, None, None]:
        """Start the run, unless it was, and yield its events up to `end`, once each, whatever the connection does.

        RunFailed when the agent could not start; UnreachableError when the host stays away for too long.
        """
        tenacity = Tenacity(self.remote, self.reconnect_for)
        while True:
            try:
                with self._stream() as stream:
                    yield from self._until_end(stream, tenacity)
                    return
            except UnreachableError as lost:
                self._recover(tenacity, lost)

    def stop(self) -> list[int]:
        """End the run on the host; pids that could not be ended. UnreachableError when the host does not answer."""
        left = Tenacity(self.remote, STOP_S).persist(self._stop)
        self.stopped = not left
        return left

    def meet(self, number: int, port: int) -> None:
        """Let it go on from a meeting with the other hosts of its job, from another thread than follows it.

        UnreachableError when the connection is lost: who follows it gets it back.
        """
        command = ("meet", self.directory, str(number), str(port))
        with self._deployed.stream(*command, going=True) as stream:
            answer(stream, "meet")

    def remove(self) -> None:
        """Remove it from the host, result and all, once it has ended."""
        workdir = self._deployed.facts.workdir
        with self._deployed.stream("clean", workdir, "--results", self.id) as stream:
            answer(stream, "clean")

    def _stop(self) -> list[int]:
        with self._deployed.stream("stop", self.directory, going=True) as stream:
            return list(answer(stream, "stop")["left"])

    def send(self, offset: int) -> Stream:
        """The result files of the run, as `collect_agent.run.send` writes them, from a byte offset on."""
        return self._deployed.stream("send", self.directory, str(offset), after=" 2>/dev/null", going=True)

    def pour(self, offset: int, file: int) -> Pour | None:
        """The rest of the one that the offset is in, straight into `file`; None where that cannot be."""
        return self._deployed.pour("pour", self.directory, str(offset), file=file)

    def start_script(self) -> str:
        """Start the run in the environment that the survey has captured, and follow it."""
        return self._deployed.script(
            "start",
            before=restore(self._deployed.facts.environment),
            after=f" 3<<'PLAN'\n{json.dumps(self._document)}\nPLAN",
        )

    def _stream(self) -> Stream:
        """To start is safe to repeat: as long as nothing was heard of the run, nobody knows whether it was."""
        if self._after or self._document is None:
            return self._deployed.stream("follow", self.directory, str(self._after), going=True)
        return self._deployed.start(self.start_script(), self._document, self.directory)

    def _recover(self, tenacity: Tenacity, lost: UnreachableError) -> None:
        try:
            tenacity.recover(lost)
        except ConnectError as error:
            error.belongs_to(LOST.id)
            error.message = f"lost the connection and could not get it back: {error.message}"
            error.remedy = f"run {self.id} may still be going on: {self.how_to_go_on}"
            raise error from lost

    def _until_end(self, stream: Stream, tenacity: Tenacity) -> Iterator[Event]:
        for event in events(stream, timeout=SILENCE_S):
            tenacity.sign_of_life()
            self._deployed.present = True
            if "seq" in event:
                self._after, self._ends = event["seq"], 0
            if event["stage"] != "heartbeat":
                yield event
            if event["stage"] == "end":
                return
        if stream.status() == -1:
            raise UnreachableError("the connection broke")
        self._ends += 1
        if self._after and self._ends < ENDS:
            raise UnreachableError("the agent's follower ended")  # the run itself goes on: follow it again
        raise noise_error(stream.noise) or RunFailed(
            f"the agent did not {'follow' if self._after else 'start'} the run: {_last(stream)}",
            f"look at {self.directory} on the host",
        )


def events(stream: Stream, timeout: float, within: float | None = None) -> Iterator[Event]:
    """The marked lines of a stream as events; the others, and what is no event, are kept as its noise.

    TransferError for an event that our agent does not tell like that.
    """
    for raw in stream.lines(timeout, within):
        before, _, text = raw.decode("utf-8", "replace").partition(MARK)
        event = wire.event(text)
        if event is not None:
            yield event
        elif before.strip():
            stream.noise.append(one_line(before))


class Over(Exception):
    """The run has ended badly while its result was being brought; `error` tells why."""

    def __init__(self, error: CollectError) -> None:
        super().__init__(error.message)
        self.error = error


def failed(event: Event) -> CollectError:
    """The error that the `end` of a run tells, with the end of its log."""
    error = from_agent(event["error"])
    error.log, error.of_run = wire.log_lines(event["log"]), True
    return error


def answer(stream: Stream, command: str) -> Event:
    """The one answer of a command of the agent, however long it takes while the agent beats. Raises its error."""
    for event in events(stream, timeout=SILENCE_S):
        if event["stage"] == "end" and event["status"] == "failed":
            raise from_agent(event["error"])
        if event["stage"] == command:
            return event
    if stream.status() == -1:
        raise UnreachableError("the connection broke")
    raise noise_error(stream.noise) or RunFailed(
        f"the agent did not answer {command!r}: {_last(stream)}", "log in to the host and look what is wrong with it"
    )


def _last(stream: Stream) -> str:
    return stream.noise[-1] if stream.noise else "it printed nothing"
