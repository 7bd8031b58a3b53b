"""Actors without Ray, under Ray's contract.

A process has the environment of the cluster and what the runtime environments of the job and of the actor add. That of
the cluster is the driver's own, if the driver starts it (RAY_ADDRESS is "local", or there is none); in one that was
there before (any other address) it is nothing of the driver's. A process is in a session of its own, and finds modules
where the driver finds them.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from .cluster import ActorDied, env_vars

# What the shell had in which somebody has started the cluster.
NAMES = ("HOME", "PATH", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
PREFIXES = ("ASCEND_HOME", "ASCEND_OPP", "ASCEND_TOOLKIT", "ASCEND_AICPU", "SIMHOST", "VERL_MINIATURE_")
WORKER = """
import sys
sys.path[:] = {path!r}
from verl.single_controller.without_ray import work
work({fd})
"""


class LocalCluster:
    def __init__(self, ray_init: dict[str, Any]) -> None:
        self._environment = dict(os.environ)
        if os.environ.get("RAY_ADDRESS", "local") != "local":
            of_cluster = [name for name in os.environ if name in NAMES or name.startswith(PREFIXES)]
            self._environment = {name: os.environ[name] for name in of_cluster}
        self._environment.update(env_vars(ray_init))
        self._actors: list[LocalActor] = []

    def actor(self, of: type, arguments: tuple[Any, ...], environment: dict[str, str]) -> LocalActor:
        started = LocalActor(of, arguments, {**self._environment, **environment})
        self._actors.append(started)
        return started

    def gather(self, calls: list[LocalActor]) -> list[Any]:
        return [actor.result() for actor in calls]

    def shutdown(self) -> None:
        for actor in self._actors:
            actor.end()


class LocalActor:
    def __init__(self, of: type, arguments: tuple[Any, ...], environment: dict[str, str]) -> None:
        self._pipe, theirs = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER.format(path=sys.path, fd=theirs.fileno())],
            env=environment,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        self._send((of.__module__, of.__name__, arguments))

    def call(self, method: str, *arguments: Any) -> LocalActor:
        self._send((method, arguments))
        return self

    def result(self) -> Any:
        try:
            good, answer = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            raise ActorDied(f"The actor died unexpectedly, exit code {self._process.wait()}.") from None
        if not good:
            raise RuntimeError(answer)
        return answer

    def end(self) -> None:
        self._pipe.close()
        self._process.terminate()
        self._process.wait()

    def _send(self, what: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # whoever waits for the answer hears of it
            self._pipe.send(what)


def work(descriptor: int) -> None:
    """An actor's process: what it is, then its calls one after the other, until its owner has gone."""
    owner = Connection(descriptor)
    module, name, arguments = owner.recv()
    actor = getattr(importlib.import_module(module), name)(*arguments)
    while True:
        try:
            method, given = owner.recv()
        except EOFError:
            return
        try:
            owner.send((True, getattr(actor, method)(*given)))
        except Exception as problem:  # noqa: BLE001 - its owner is told, whatever it is
            owner.send((False, f"{type(problem).__name__}: {problem}"))
