"""The devices of many hosts, asked at once: one connection a host, which may be kept for the next time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..errors import CollectError, internal
from ..inventory import Host
from ..parallel import at_once
from ..ssh.remote import Remote
from ..survey.glance import glance
from .judged import Seen, Verdict, Wish, verdicts

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of the devices of one host, or why nothing is."""

    host: str
    verdicts: tuple[Verdict, ...] = ()
    error: CollectError | None = None


class Fleet:
    """Hosts whose devices are asked for. Use as a context manager.

    `again`: more than once, with connections that stay; else there are never more of them than hosts are asked at once.
    """

    def __init__(self, hosts: Sequence[Host], wish: Wish, *, again: bool = False) -> None:
        self._remotes = [Remote(host, brief=not again) for host in hosts]
        self._wish, self._again = wish, again

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        for remote in self._remotes:
            remote.close()

    def ask(self) -> list[Answer]:
        """The answer of every host, in the order given; one that fails does not hide the others.

        They are judged when all have been asked: between the turns of other threads that takes twice as long.
        """
        seen = at_once(lambda remote: _told(lambda: self._see(remote)), self._remotes)
        return [self._answer(remote.host.name, host) for remote, host in zip(self._remotes, seen, strict=True)]

    def _see(self, remote: Remote) -> Seen:
        try:
            if not remote.is_open:
                remote.close()
                remote.open()
            return _seen(remote)
        except CollectError:
            raise
        except BaseException:
            remote.close()
            raise
        finally:
            if not self._again:
                remote.close()

    def _answer(self, name: str, seen: Seen | CollectError) -> Answer:
        judged = seen if isinstance(seen, CollectError) else _told(lambda: verdicts(seen, self._wish))
        if not isinstance(judged, CollectError):
            return Answer(name, judged)
        judged.host = judged.host or name
        return Answer(name, error=judged)


def _told(ask: Callable[[], T]) -> T | CollectError:
    """What `ask` gives, or why it gives nothing: the other hosts are told of all the same."""
    try:
        return ask()
    except CollectError as error:
        return error
    except Exception as error:  # noqa: BLE001 - whatever it is
        return internal(error)


def _seen(remote: Remote) -> Seen:
    if (seen := glance(remote, remote.host)) is not None:
        return seen
    from .. import agent_file  # what few hosts need, none waits for
    from ..survey.survey import survey

    return survey(remote, remote.host, agent_file.build().name)


def worst(answers: Sequence[Answer]) -> int:
    """The exit code of the command: 0 when all hosts have answered, else the highest."""
    return max((answer.error.exit_code for answer in answers if answer.error), default=0)
