"""The same question to many hosts at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

AT_ONCE = 16
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def at_once(ask: Callable[[Asked], Answer], things: Sequence[Asked]) -> list[Answer]:
    """The answers in the order of `things`; what `ask` raises is raised here."""
    waiting: queue.SimpleQueue[tuple[Asked, Future[Answer]] | None] = queue.SimpleQueue()
    answers: list[Future[Answer]] = []

    def work() -> None:
        while task := waiting.get():
            thing, answer = task
            try:
                answer.set_result(ask(thing))
            except BaseException as error:  # noqa: BLE001 - raised again where the answer is wanted
                answer.set_exception(error)

    for thing in things:
        answers.append(Future())
        waiting.put((thing, answers[-1]))
    for _ in range(min(AT_ONCE, len(answers))):
        waiting.put(None)
        # Not a pool: a Ctrl-C does not wait for a host that does not answer.
        threading.Thread(target=work, daemon=True).start()
    return [answer.result() for answer in answers]
