"""What we collect is what the TensorBoard plugin of Ascend shows: both from PyPI, in a venv of their own."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from collect_agent.output.archive import extract
from harness import Tool
from simhost import SimHost

TENSORBOARD = Path(__file__).resolve().parents[2] / ".venv" / "downstream" / "bin" / "tensorboard"
PATIENCE_S = 90.0


class Board:
    """A TensorBoard that is running, asked about what its plugin has read."""

    def __init__(self, url: str) -> None:
        self._url = url + "data/plugin/pytorch_profiler/"

    def ask(self, what: str, **arguments: str) -> Any:
        url = f"{self._url}{what}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own server, on loopback
            return json.load(answer)

    def runs(self) -> list[str]:
        """As soon as none is still being read."""
        until = time.monotonic() + PATIENCE_S
        while True:
            told = self.ask("runs")
            if told["runs"] and not told["loading"]:
                return list(told["runs"])
            assert time.monotonic() < until, told
            time.sleep(0.5)


@contextmanager
def board(logs: Path) -> Iterator[Board]:
    command = [TENSORBOARD, "--logdir", logs, "--host", "127.0.0.1", "--port", "0", "--load_fast", "false"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stderr is not None
            told = next((found for line in process.stderr if (found := re.search(r"http://127\S+", line))), None)
            assert told, "it said no address"
            yield Board(told.group())
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the plugin reads in processes of its own


@pytest.mark.torch_npu
def test_a_pulled_profile_is_found_and_its_kernels_are_shown(
    host: Callable[..., SimHost], tool: Tool, ascend_runtime: str, tmp_path: Path
) -> None:
    if not TENSORBOARD.exists():
        pytest.skip(f"no TensorBoard in {TENSORBOARD.parents[1]}: ./scripts/test installs it where PyPI has it")
    tool.inventory(host(runtime=ascend_runtime))
    outcome = tool.collect("--phase", "decode")
    assert outcome.status == 0, outcome.err
    extract(str(tool.directory / outcome.document["archive"]["path"]), str(tmp_path / "copy"))
    (profile,) = (tmp_path / "copy").rglob("*_ascend_pt")
    with (profile / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").open(newline="") as file:
        kernels = [row["Name"] for row in csv.DictReader(file)]
    with board(tmp_path / "copy" / "profile_l1" / "decode") as shown:
        (run,) = shown.runs()
        assert {"Operator", "Kernel", "Trace"} <= set(shown.ask("views", run=run)["views"])
        (worker,) = shown.ask("workers", run=run, view="Kernel")
        (span,) = shown.ask("spans", run=run, worker=worker)
        table = shown.ask("kernel/table", run=run, worker=worker, span=span, view="Kernel", group_by="Kernel")
    name = [column["name"] for column in table["data"]["columns"]].index("Name")
    assert [row[name] for row in table["data"]["rows"]] == kernels
    assert kernels
