"""The devices of many hosts, asked at once: one connection a host, which may be kept for the next time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import CollectError, internal
from ..inventory import Host
from ..parallel import at_once
from ..ssh.remote import Remote
from ..survey.glance import glance
from .judged import Seen, Verdict, Wish, verdicts


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
        self._remotes = [Remote(host) for host in hosts]
        self._wish, self._again = wish, again

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        for remote in self._remotes:
            remote.close()

    def ask(self) -> list[Answer]:
        """The answer of every host, in the order given; one that fails does not hide the others."""
        return at_once(self._answer, self._remotes)

    def _answer(self, remote: Remote) -> Answer:
        name = remote.host.name
        try:
            if not remote.is_open:
                remote.close()
                remote.open()
            return Answer(name, verdicts(_seen(remote), self._wish))
        except CollectError as error:
            error.host = error.host or name
            return Answer(name, error=error)
        except Exception as error:  # noqa: BLE001 - the other hosts are told of all the same
            remote.close()
            unexpected = internal(error)
            unexpected.host = name
            return Answer(name, error=unexpected)
        finally:
            if not self._again:
                remote.close()


def _seen(remote: Remote) -> Seen:
    if (seen := glance(remote, remote.host)) is not None:
        return seen
    from .. import agent_file  # what few hosts need, none waits for
    from ..survey.survey import survey

    return survey(remote, remote.host, agent_file.build().name)


def worst(answers: Sequence[Answer]) -> int:
    """The exit code of the command: 0 when all hosts have answered, else the highest."""
    return max((answer.error.exit_code for answer in answers if answer.error), default=0)
