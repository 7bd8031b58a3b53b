"""Work in the background: one piece beside our own, or the same question to many hosts at once."""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

AT_ONCE = 32  # hosts: where they are near, 8 do as well; 100 ms away 16 take a third longer, and 64 save little more
# No pools: a Ctrl-C does not wait for a host that does not answer.
T = TypeVar("T")
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def in_background(work: Callable[[], T]) -> Future[T]:
    """Start `work` in a thread; what it raises is raised where its result is asked for."""
    future: Future[T] = Future()
    threading.Thread(target=_work, args=(work, future), daemon=True).start()
    return future


def _work(work: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised again where the result is wanted
        future.set_exception(error)


def at_once(ask: Callable[[Asked], Answer], things: Sequence[Asked]) -> list[Answer]:
    """The answers in the order of `things`; what `ask` raises is raised here."""
    waiting: queue.SimpleQueue[tuple[Asked, Future[Answer]] | None] = queue.SimpleQueue()
    answers: list[Future[Answer]] = []

    def work() -> None:
        while task := waiting.get():
            thing, answer = task
            _work(functools.partial(ask, thing), answer)

    for thing in things:
        answers.append(Future())
        waiting.put((thing, answers[-1]))
    for _ in range(min(AT_ONCE, len(answers))):
        waiting.put(None)
        threading.Thread(target=work, daemon=True).start()
    return [answer.result() for answer in answers]
