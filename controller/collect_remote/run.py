"""One run on a host, seen from here: start it, follow its events across lost connections, stop it, read its files."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from collect_agent.events import MARK, Event

from .deploy import Agent, upload_script
from .environment import restore
from .errors import RunFailed, UnreachableError, noise_error, one_line
from .remote import Remote, Stream
from .survey import Facts

SILENCE_S = 60.0  # the agent beats every five seconds
RECONNECT_FOR_S = 120.0
TRIES = 5  # of following again, without anything new in between
ORPHAN_S = 600.0


@dataclass(slots=True)
class Run:
    """A run that was planned. `document` is what the agent gets: a plan and everything it needs to prove the result."""

    remote: Remote
    facts: Facts
    agent: Agent
    document: dict[str, Any]
    _after: int = field(default=0, init=False)

    @property
    def id(self) -> str:
        return str(self.document["run_id"])

    @property
    def directory(self) -> str:
        """Where it lives on the host."""
        return f"{self.facts.workdir}/runs/{self.id}"

    def events(self) -> Iterator[Event]:
        """Start the run and yield its events up to and including `end`, once each, whatever the connection does.

        RunFailed when the agent could not start; UnreachableError when the host stays away for too long.
        """
        stream = self.remote.stream(self.start_script())
        tries = TRIES
        while True:
            before = self._after
            try:
                with stream:
                    yield from self._until_end(stream)
                    return
            except UnreachableError as error:
                lost = error
            tries = TRIES if self._after > before else tries - 1
            if not tries:
                raise lost
            time.sleep(0.0 if tries == TRIES else 1.0)
            if not self.remote.is_open:
                self._reopen(lost)
            stream = self._call("follow", str(self._after))

    def _reopen(self, lost: UnreachableError) -> None:
        try:
            self.remote.reopen(RECONNECT_FOR_S)
        except UnreachableError as error:
            raise UnreachableError(
                f"lost the connection and could not get it back: {error.message}",
                f"run {self.id} may still be going on; it ends by itself when nobody follows it for "
                f"{ORPHAN_S / 60:g} minutes",
            ) from lost

    def start_script(self) -> str:
        """In the captured environment: upload the agent if it is not there, start the run and follow it."""
        upload = "" if self.facts.agent_present else upload_script(self.agent, self.facts.workdir)
        return (
            f"{restore(self.facts.environment)}\n{upload}\n"
            f"{self._command('start')} <<'PLAN'\n{json.dumps(self.document)}\nPLAN"
        )

    def stop(self) -> list[int]:
        """End the run on the host; pids that could not be ended. UnreachableError when the host does not answer."""
        if not self.remote.is_open:
            self.remote.reopen(10.0)
        with self._call("stop") as stream:
            for event in events(stream, timeout=60.0, within=90.0):
                return [int(pid) for pid in event["left"]]
        raise RunFailed(f"the agent did not stop run {self.id}: {_last(stream)}", f"look at {self.directory}")

    def send(self, offset: int) -> Stream:
        """The result files of the run, as `collect_agent.send` writes them, from a byte offset on."""
        return self._call("send", str(offset), quiet=True)

    def _call(self, command: str, argument: str = "", *, quiet: bool = False) -> Stream:
        line = f"{self._command(command)} {shlex.quote(self.directory)} {argument}"
        return self.remote.stream(f"exec {line}{' 2>/dev/null' if quiet else ''}")

    def _command(self, command: str) -> str:
        # The agent needs the standard library alone: -I -S keep the host's site-packages out, and start faster.
        return f"{shlex.quote(self.facts.python)} -I -S {shlex.quote(self.agent.path(self.facts.workdir))} {command}"

    def _until_end(self, stream: Stream) -> Iterator[Event]:
        for event in events(stream, timeout=SILENCE_S):
            if "seq" in event:
                self._after = event["seq"]
            if event["stage"] != "heartbeat":
                yield event
            if event["stage"] == "end":
                return
        if stream.status() == -1:
            raise UnreachableError("the connection broke")
        if self._after:
            raise UnreachableError("the agent's follower ended")  # the run itself goes on: follow it again
        raise noise_error(stream.noise) or RunFailed(
            f"the agent did not start: {_last(stream)}", f"look at {self.directory} on the host"
        )


def events(stream: Stream, timeout: float, within: float | None = None) -> Iterator[Event]:
    """The marked lines of a stream as events; the others, and what is no event, are kept as its noise."""
    for raw in stream.lines(timeout, within):
        before, _, text = raw.decode("utf-8", "replace").partition(MARK)
        event = _event(text)
        if event is not None:
            yield event
        elif before.strip():
            stream.noise.append(one_line(before))


def _event(text: str) -> Event | None:
    try:
        event = json.loads(text)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("stage"), str) else None


def _last(stream: Stream) -> str:
    return stream.noise[-1] if stream.noise else "it printed nothing"
