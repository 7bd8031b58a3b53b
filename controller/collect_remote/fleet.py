"""The devices of many hosts, asked at once: one connection a host, kept for the next time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from . import deploy
from .devices import Verdict, Wish, verdicts
from .errors import CollectError
from .inventory import Host
from .remote import Remote
from .survey import survey

AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of the devices of one host, or why nothing is."""

    host: str
    verdicts: tuple[Verdict, ...] = ()
    error: CollectError | None = None


class Fleet:
    """Hosts whose devices are asked for, once or again and again. Use as a context manager."""

    def __init__(self, hosts: Sequence[Host], wish: Wish) -> None:
        self._remotes = [Remote(host) for host in hosts]
        self._wish = wish

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        for remote in self._remotes:
            remote.close()

    def ask(self) -> list[Answer]:
        """The answer of every host, in the order given; one that fails does not hide the others."""
        waiting: queue.SimpleQueue[tuple[Remote, Future[Answer]] | None] = queue.SimpleQueue()
        answers: list[Future[Answer]] = []
        for remote in self._remotes:
            answers.append(Future())
            waiting.put((remote, answers[-1]))
        for _ in range(min(AT_ONCE, len(answers))):
            waiting.put(None)
            # Not a pool: a Ctrl-C does not wait for a host that does not answer.
            threading.Thread(target=self._work, args=(waiting,), daemon=True).start()
        return [answer.result() for answer in answers]

    def _work(self, waiting: queue.SimpleQueue[tuple[Remote, Future[Answer]] | None]) -> None:
        while task := waiting.get():
            remote, answer = task
            try:
                answer.set_result(self._answer(remote))
            except BaseException as error:  # noqa: BLE001 - raised again where the answer is wanted
                answer.set_exception(error)

    def _answer(self, remote: Remote) -> Answer:
        name = remote.host.name
        try:
            if not remote.is_open:
                remote.close()
                remote.open()
            return Answer(name, verdicts(survey(remote, remote.host, deploy.build().name), self._wish))
        except CollectError as error:
            error.host = error.host or name
            return Answer(name, error=error)


def worst(answers: Sequence[Answer]) -> int:
    """The exit code of the command: 0 when all hosts have answered, else the highest."""
    return max((answer.error.exit_code for answer in answers if answer.error), default=0)
