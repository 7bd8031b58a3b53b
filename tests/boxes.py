"""What end-to-end tests of containers share."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness import Outcome, Tool, gone, leases
from simhost import SimHost
from simhost.containers import Container

STEADY = """
import time
import torch

def load(device, options):
    time.sleep({load})
    return torch.ones(4, 4).to(device)

def forward(state):
    time.sleep({step})
    return state @ state
"""


def box(host: SimHost, name: str = "vllm", **options: Any) -> Container:
    """A container of `host`; skips where namespaces cannot be made."""
    try:
        return host.container(name, **options)
    except PermissionError as error:
        pytest.skip(str(error))


def inside(tool: Tool, host: SimHost, container: str = "vllm", models: Any = None, **keys: Any) -> None:
    """Write the inventory: `host` with `container`, whose work directory is its own."""
    keys = {"container": container, "workdir": "/workspace/runs", **keys}
    tool.inventory(host, models=models, entries={host.name: keys})


def steady(tool: Tool, host: SimHost, *, load: float = 0.0, step: float = 0.1, **keys: Any) -> None:
    (tool.directory / "steady.py").write_text(STEADY.format(load=load, step=step))
    inside(tool, host, models={"steady": {"adapter": "./steady.py"}}, **keys)


def manifest(tool: Tool, outcome: Outcome) -> Any:
    return json.loads((tool.directory / outcome.document["directory"] / "manifest.json").read_text())


def nothing_left(host: SimHost, tmp_path: Path) -> None:
    """No process on the host or in a container, no device held, no lease."""
    assert gone(host.processes), [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in host.processes()]
    assert host.held() == {}
    assert leases(tmp_path) == []


class Process(NamedTuple):
    pid: int

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def command_lines(host: SimHost, *words: str) -> list[Process]:
    """The processes of the host and its containers whose command lines have all these words."""
    found = []
    for pid in host.processes():
        try:
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if all(word.encode() in argv for word in words):
            found.append(Process(pid))
    return found
