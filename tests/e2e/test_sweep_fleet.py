"""A fleet of which some hosts are sick, and a tool that is killed again and again: every healthy cell is run once, and
every sick one named.

COLLECT_REMOTE_FLEET="HOSTS KILLS" makes it as large as one likes; "100 5" takes a quarter of an hour on two processors.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from test_sweep import cells, wait_for

from harness import Outcome, Tool, leases
from simhost import SimHost

Start = Callable[..., SimHost]
HOSTS, KILLS = map(int, os.environ.get("COLLECT_REMOTE_FLEET", "6 1").split())
SICK = ("dead", "hanging", "full", "half-way")
PHASES = ("prefill", "decode")
MODEL = """
import os
import torch

def load(device, options):
    with open(options["started"], "a") as file:
        file.write(os.environ["HOME"].split("/")[-2] + " " + options["name"] + "\\n")
    return [torch.ones(4, 4).to(device), 0]

def prefill(state):
    state[1] += 1
    if "SICK" in os.environ and state[1] > 3:
        os._exit(3)
    return state[0] @ state[0]

decode = prefill
"""


@pytest.fixture
def fleet(simhost: Start, tool: Tool, tmp_path: Path, client_home: Path) -> Iterator[dict[str, str]]:
    """{host: what is wrong with it, or ""}; a tenth is sick, and one of each kind at least."""
    (client_home / ".ssh" / "config").write_text("Host *\n    ConnectTimeout 4\n")
    (tool.directory / "mine.py").write_text(MODEL)
    started = {"adapter": "./mine.py", "started": str(tool.directory / "started")}
    wrong, hosts, entries = {}, [], {}
    with ExitStack() as running:
        for number in range(HOSTS):
            name = f"ascend{number:03d}"
            sick = SICK[number % len(SICK)] if number < max(len(SICK), HOSTS // 10) else ""
            wrong[name] = sick
            if sick in ("dead", "hanging"):
                place = running.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
                entries[name] = {"address": "127.0.0.1", "port": place.getsockname()[1]}
                if sick == "dead":
                    place.close()
                continue
            said = {"COLLECT_REMOTE_LEASE_DIR": str(tmp_path / f"leases-{name}")}
            options: dict[str, Any] = {"disk_mb": 8} if sick == "full" else {}
            try:
                hosts.append(simhost(name, env=said | ({"SICK": "1"} if sick == "half-way" else {}), **options))
            except PermissionError as error:
                pytest.skip(str(error))
        tool.inventory(*hosts, models={name: {**started, "name": name} for name in ("one", "two")}, entries=entries)
        yield wrong


def test_every_healthy_cell_once_and_every_sick_one_named(fleet: dict[str, str], tool: Tool, tmp_path: Path) -> None:
    begin = ["sweep", "--phases", ",".join(PHASES), "--dir", "fleet"]
    go_on = ["sweep", "--resume", "--retry", "unreachable=1", "--dir", "fleet", "--json"]
    lots = random.Random(HOSTS)
    for kill in range(KILLS):
        process = tool.start(*(go_on if kill else begin))
        wait_for((tool.directory / "fleet" / "journal.sqlite").exists)
        time.sleep(lots.uniform(0.5, 2.0 + HOSTS / 4))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    done = tool(*go_on, timeout=3600)
    assert done.status == 9, done.err
    found = cells(done)
    assert len(found) == HOSTS * 4
    healthy = {key: cell for key, cell in found.items() if not fleet[cell["host"]]}
    assert {cell["state"] for cell in healthy.values()} == {"valid"}
    starts = Counter((tool.directory / "started").read_text().splitlines())
    assert {starts[f"{cell['host']} {cell['model']}"] for cell in healthy.values()} == {len(PHASES)}
    assert causes(done, fleet) == {
        "dead": {"UnreachableError"},
        "hanging": {"UnreachableError"},
        "full": {"StorageError"},
        "half-way": {"RunFailed"},
    }
    assert leases(tmp_path) == []


def causes(done: Outcome, fleet: dict[str, str]) -> dict[str, set[str]]:
    """{what is wrong: the kinds of errors that tell it}."""
    told: dict[str, set[str]] = {}
    for cell in done.document["cells"]:
        if fleet[cell["host"]]:
            assert cell["state"] == "failed", cell
            told.setdefault(fleet[cell["host"]], set()).add(cell["error"]["kind"])
    return told
