"""A user's program under a route, and what befalls its host meanwhile: a lost connection, a full disk, a flood."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import Tool, end, gone, one_error, read_until
from simhost import SimHost
from simhost.link import Link

Start = Callable[..., SimHost]
Clean = Callable[..., None]

# Goes on from its third step when `gate` is there.
TRAIN = """
import os, time
import torch, torch_npu

x = torch.ones(8, 8).to("npu:0")
handler = torch_npu.profiler.tensorboard_trace_handler("./prof")
with torch_npu.profiler.profile(on_trace_ready=handler) as prof:
    for step in range(20):
        {what}
        x = x @ x / 8
        prof.step()
"""
GATED = "while step > 2 and not os.path.exists({gate!r}): time.sleep(0.05)"


def trains(tool: Tool, ascend: SimHost, what: str, **entry: Any) -> Path:
    project = ascend.workdir.parent / "project"
    project.mkdir(exist_ok=True)
    (project / "train.py").write_text(TRAIN.format(what=what))
    model = {"route": "script", "project": str(project), "command": "python3 train.py"}
    tool.inventory(ascend, models={"mine": model}, entries={"ascend01": entry})
    return project


@pytest.fixture
def link(host: Start) -> Iterator[tuple[SimHost, Link]]:
    ascend = host()
    with Link(ascend.address, ascend.port) as between:
        yield ascend, between


def test_a_connection_that_comes_back_costs_nothing(link: tuple[SimHost, Link], tool: Tool, tmp_path: Path) -> None:
    ascend, between = link
    trains(tool, ascend, GATED.format(gate=str(tmp_path / "gate")), port=between.port)
    process = tool.start("--host", "ascend01", "--model", "mine", "--phase", "train", "--json")
    said = read_until(process, "warming up")
    between.refuse()
    between.cut()
    said += read_until(process, "; trying to get the connection back")
    time.sleep(0.5)  # in vain
    (tmp_path / "gate").touch()
    between.accept()
    outcome = end(process, said)
    assert outcome.status == 0, outcome.err
    assert len(outcome.document["phases"]["train"]["step_seconds"]) == 3
    assert outcome.err.count("profiling: train step 3 of 3") == 1, "no event comes twice"
    assert gone(ascend.processes)


def test_what_goes_on_without_its_connection_is_brought_later(
    link: tuple[SimHost, Link], tool: Tool, tmp_path: Path, assert_clean: Clean
) -> None:
    ascend, between = link
    trains(tool, ascend, GATED.format(gate=str(tmp_path / "gate")), port=between.port)
    options = ("--phase", "train", "--json", "--reconnect-for", "1s")
    process = tool.start("--host", "ascend01", "--model", "mine", *options)
    said = read_until(process, "warming up")
    between.refuse()
    between.cut()
    outcome = end(process, said)
    (run,) = (path.name for path in (ascend.workdir / "runs").iterdir())
    one_error(outcome, 3, message="lost the connection", remedy=f"collect-remote attach {run} --host ascend01")
    assert not (tool.profiles / ".incoming").exists()
    (tmp_path / "gate").touch()
    between.accept()
    brought = tool("attach", run, "--host", "ascend01", "--json")
    assert brought.status == 0, brought.err
    assert brought.document["verdict"] == "valid"
    assert brought.document["route"] == "script"
    assert gone(ascend.processes)
    assert list((ascend.workdir / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("command", "how"),
    [("python3 train.py", "killed by SIGKILL"), ("bash -c 'python3 train.py; exit $?'", "a shell's for SIGKILL")],
)
def test_a_program_that_is_killed(host: Start, tool: Tool, assert_clean: Clean, command: str, how: str) -> None:
    ascend = host()
    project = trains(tool, ascend, "if step == 4: os.kill(os.getpid(), 9)")
    model = {"route": "script", "project": str(project), "command": command}
    tool.inventory(ascend, models={"mine": model})
    message = f"rank 0 ended before its window of train was closed .*{how}"
    one_error(tool.collect("--phase", "train", model="mine"), 6, message=message, remedy="run.log")
    assert_clean(ascend)


# Somebody's file takes what is left of the disk; what was being written there fails.
FILL = """
def fill(*_):
    with open({filler!r}, "ab", buffering=0) as filler:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while filler.write(bytes(size)):
                    pass
            except OSError:
                pass
"""


@pytest.mark.parametrize(
    "when",
    ["fill()", "if step == 3: fill()", "if step == 4: fill(); time.sleep(600)"],
    ids=["receipts", "recording", "waits"],
)
def test_the_hosts_disk_fills_up_while_a_program_runs(host: Start, tool: Tool, assert_clean: Clean, when: str) -> None:
    """Then its receipts are not written, and it seems to have made fewer steps, or to go on for ever."""
    ascend = small(host, 300)
    project = trains(tool, ascend, when)
    text = (project / "train.py").read_text()
    (project / "train.py").write_text(FILL.format(filler=str(ascend.workdir / "filler")) + text)
    outcome = tool.collect("--phase", "train", model="mine")
    one_error(outcome, 8, message=f"cannot write on the host: No space left.*{ascend.workdir}", remedy="free some")
    assert_clean(ascend)


def test_the_hosts_disk_is_full_when_the_profile_is_parsed(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = small(host, 300)
    project = trains(tool, ascend, "import signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(fill() or 0))")
    text = (project / "train.py").read_text().replace("range(20)", "range(10 ** 9)")
    (project / "train.py").write_text(FILL.format(filler=str(ascend.workdir / "filler")) + text)
    outcome = tool.collect("--phase", "train", model="mine")
    kept = rf"free some.*; the data are kept on the host in {ascend.workdir}/runs/\S+/profile"
    one_error(outcome, 8, message=f"cannot write on the host: No space left.*{ascend.workdir}", remedy=kept)
    assert_clean(ascend)


# Prints much more than there is room for, when there is room for the next part: what is before has been given up then.
FLOOD = """
import os, time

print("the first line", flush=True)
for part in range(4):
    until = time.monotonic() + 30
    while True:
        disk = os.statvfs({disk!r})
        if disk.f_bavail * disk.f_frsize > 120 << 20 or time.monotonic() > until:
            break
        time.sleep(0.05)
    for _ in range(100):
        print("x" * ((1 << 20) - 1), flush=True)
print("the last line", flush=True)
"""


def test_what_a_program_prints_is_not_kept_without_end(host: Start, tool: Tool) -> None:
    """The first and the last of it are: here, and on the host, whose disk would not hold it all."""
    ascend = small(host, 300)
    project = trains(tool, ascend, "pass")
    text = FLOOD.format(disk=str(ascend.workdir)) + (project / "train.py").read_text()
    (project / "train.py").write_text(text)
    outcome = tool.collect("--phase", "train", model="mine")
    assert outcome.status == 0, outcome.err
    log = (tool.directory / outcome.document["directory"] / "run.log").read_bytes()
    assert len(log) < 65 << 20
    assert log.startswith(b"the first line\n")
    assert b"\nthe last line\n" in log
    (note,) = re.findall(rb"\n--- (\d+) bytes are left out here: .* first 16 and its last 48 MiB ---\n", log)
    assert int(note) + len(log) == pytest.approx(400 << 20, abs=1 << 16)
    assert b"\0" not in log
    assert gone(ascend.processes)


def small(host: Start, megabytes: int) -> SimHost:
    try:
        return host(disk_mb=megabytes)
    except PermissionError as error:
        pytest.skip(f"a small file system cannot be mounted: {error}")
