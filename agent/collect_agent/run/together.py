"""A run that is a part of a job on several hosts: at every gate it waits until the other parts have come to theirs.

Only who follows all of them knows that: `meet` writes it down, once for every meeting, and the supervisor looks for it.
The first meeting is when every part holds its devices; it brings the port at which the job's processes find each other.
"""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any, Callable, Dict, Optional

from ..troubles import NOT_WRITTEN
from .rundir import RunDir

TICK_S = 0.05


def meet(run: RunDir, number: int, port: int) -> None:
    """Let the run go on from its meeting `number`; safe to repeat. Failure when that cannot be written."""
    path = run.met(number)
    written = "{}.{}".format(path, os.getpid())
    try:
        with open(written, "w", encoding="utf-8") as file:
            json.dump({"port": port}, file)
        os.replace(written, path)
    except OSError as error:
        raise NOT_WRITTEN(why=error.strerror, path=run.path) from error


class Meetings:
    """Those of one run. `node`: its place in the job, as its plan says; None of one that waits for nobody."""

    def __init__(self, run: RunDir, node: Optional[Dict[str, Any]], tell: Callable[..., Any]) -> None:
        self._run, self._node, self._tell = run, node, tell
        self._number = 0

    def begin(self) -> int:
        """When every part has its devices: the port of the job, free on the first host where nobody has named one."""
        if self._node is None:
            return free_port("127.0.0.1")
        if self._node["rank"] > 0:
            return self._told()["port"]  # type: ignore[no-any-return]
        return self._told(port=self._node["master_port"] or free_port(""))["port"]  # type: ignore[no-any-return]

    def wait(self) -> None:
        if self._node is not None:
            self._told()

    def _told(self, **known: int) -> Dict[str, Any]:
        """Say that we are there, and wait for the others; what was said then."""
        path = self._run.met(self._number)
        self._tell(stage="meet", number=self._number, **known)
        self._number += 1
        while not os.path.exists(path):
            time.sleep(TICK_S)
        with open(path, encoding="utf-8") as file:
            told: Dict[str, Any] = json.load(file)
        return told


def free_port(address: str) -> int:
    """For the processes of a job to find each other; what another takes in between ends the run in torchrun's words."""
    with socket.socket() as free:
        free.bind((address, 0))
        port: int = free.getsockname()[1]
        return port


def environment(node: Optional[Dict[str, Any]], port: int) -> Dict[str, str]:
    """What launchers read, of torchrun and of the frameworks' own scripts."""
    if node is None:
        return {}
    return {
        "MASTER_ADDR": node["master_addr"],
        "MASTER_PORT": str(port),
        "NNODES": str(node["count"]),
        "NODE_RANK": str(node["rank"]),
    }
