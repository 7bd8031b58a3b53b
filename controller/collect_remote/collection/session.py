"""One command on one host: its events on their way to the caller, its connection, and where its errors happened."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from collect_agent.events import Event

from ..cancel import Cancel
from ..errors import CollectError, ConnectError, Interrupted
from ..inventory import Host
from ..ssh.remote import Remote

OnEvent = Callable[[Event], None]


class Log:
    """Events on their way to the caller; the first of every stage is remembered for the manifest.

    `kept` says what there is on the host that an error must not make forget.
    """

    def __init__(self, on_event: OnEvent | None) -> None:
        self.events: list[Event] = []
        self.kept = ""
        self._on_event = on_event

    def __call__(self, /, **fields: Any) -> None:
        # Every time is this machine's: the host's clock may differ.
        event = {**fields, "time": round(time.time(), 6)}
        if self.stage != event["stage"]:
            self.events.append(event)
        if self._on_event:
            self._on_event(event)

    def lost(self, error: ConnectError) -> None:
        """The connection, which is tried to get back: what goes on there is in its stage all the same."""
        if self._on_event:
            self._on_event({"stage": self.stage, "lost": error.message, "time": round(time.time(), 6)})

    @property
    def stage(self) -> str:
        return self.events[-1]["stage"] if self.events else ""


@contextlib.contextmanager
def session(host: Host, on_event: OnEvent | None, cancel: Cancel | None = None) -> Iterator[tuple[Remote, Log]]:
    """A connection to `host`, and where to tell what is done with it.

    Whatever goes wrong is told with its stage and host; a Ctrl-C that nobody has answered yet becomes Interrupted, and
    so does what `cancel` raises.
    """
    log = Log(on_event)
    try:
        log(stage="connect")
        with Remote(host, cancel, on_loss=log.lost) as remote:
            yield remote, log
    except CollectError as error:
        error.stage = error.stage or log.stage
        error.host = error.host or host.name
        error.remedy = "; ".join(filter(None, (error.remedy, log.kept)))
        raise
    except KeyboardInterrupt as error:
        state = log.kept or "nothing was started on the host"
        raise Interrupted(f"interrupted: {state}", stage=log.stage, host=host.name) from error
