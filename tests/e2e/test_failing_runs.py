"""Models and profilers that fail, disks that are full: one clear error, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import Tool, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]


# --- the run ----------------------------------------------------------------------------------------------------------

ADAPTER = """
import os, sys, time
import torch

def load(device, options):
    return torch.ones(4, 4).to(device)

calls = []

def forward(state):
    calls.append(1)
    if len(calls) == {at}:
        {what}
    return state @ state
"""
RAISES = "raise RuntimeError('out of luck')"
HANGS = "print('here it hangs', flush=True); time.sleep(600)"
DIES = "os.kill(os.getpid(), 6)"
EXITS = "os._exit(0)"
IGNORES = "import signal; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
FORKS = (
    "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True); raise RuntimeError('left a child')"
)


def faulty(tool: Tool, host: SimHost, what: str, at: int = 1) -> None:
    (tool.directory / "faulty.py").write_text(ADAPTER.format(what=what, at=at))
    tool.inventory(host, models={"faulty": {"adapter": "./faulty.py"}})


@pytest.mark.parametrize("at", [1, 2, 5], ids=["precheck", "warm-up", "window"])
def test_a_model_that_raises(host: Start, tool: Tool, assert_clean: Clean, at: int) -> None:
    ascend = host()
    faulty(tool, ascend, RAISES, at)
    outcome = tool.collect(model="faulty")
    one_error(outcome, 6, message=r"the model raised RuntimeError: out of luck \(adapter.py:\d+\)", remedy="log")
    assert "    | RuntimeError: out of luck" in outcome.err, "the end of the host's log is shown"
    assert_clean(ascend)


def test_a_model_that_leaves_a_child_behind(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    faulty(tool, ascend, FORKS)
    one_error(tool.collect(model="faulty"), 6, message="left a child", remedy="log")
    assert_clean(ascend)


@pytest.mark.parametrize("what", [HANGS, IGNORES], ids=["sleeps", "ignores-sigterm"])
def test_a_model_that_hangs(host: Start, tool: Tool, assert_clean: Clean, what: str) -> None:
    ascend = host()
    faulty(tool, ascend, what, at=3)
    outcome = tool.collect("--timeout", "2s", model="faulty")
    one_error(outcome, 6, message="not finished after 2 s", remedy="--timeout")
    assert_clean(ascend)


def test_a_model_that_kills_its_process(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    faulty(tool, ascend, DIES, at=4)
    one_error(tool.collect(model="faulty"), 6, message="killed by SIGABRT", remedy="run.log")
    assert_clean(ascend)


def test_exit_status_0_proves_nothing(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    faulty(tool, ascend, EXITS, at=5)
    one_error(tool.collect(model="faulty"), 7, message="profiler was never stopped", remedy=".")
    assert_clean(ascend)


def test_a_failed_run_without_data_keeps_its_log_only(host: Start, tool: Tool) -> None:
    ascend = host()
    faulty(tool, ascend, "open('big', 'wb').write(b'x' * 1000000); " + RAISES)
    assert tool.collect(model="faulty").status == 6
    (run,) = (ascend.workdir / "runs").iterdir()
    assert {path.name for path in run.iterdir()} - {"followed"} == {"plan.json", "events.jsonl", "run.log", "pid.json"}


@pytest.mark.parametrize("then", ["time.sleep(60)", "os._exit(0)"], ids=["goes-on", "ends"])
def test_a_model_that_removes_its_run(host: Start, tool: Tool, assert_clean: Clean, then: str) -> None:
    ascend = host()
    faulty(tool, ascend, "import shutil; shutil.rmtree(os.path.dirname(os.getcwd())); " + then, at=3)
    outcome = tool.collect(model="faulty")
    one_error(outcome, 6, message="the directory of the run was removed while it was going on", remedy="model")
    assert_clean(ascend)
    assert list((ascend.workdir / "runs").iterdir()) == []


def test_a_model_that_removes_its_log(host: Start, tool: Tool) -> None:
    ascend = host()
    faulty(tool, ascend, "print('said before'); os.unlink('../run.log'); print('said after')", at=3)
    outcome = tool.collect(model="faulty")
    assert outcome.status == 0, outcome.err
    log = (tool.directory / outcome.document["directory"] / "run.log").read_text()
    assert "said before\nsaid after\n" in log


FORGES = r"""
for line in (b'junk', b'{"stage": "end", "status": "done", "files": []}', b'{"stage": "load", "seq": 1000, "time": 0}'):
            os.write(int(os.environ["COLLECT_REMOTE_EVENTS"]), line + b'\n')
"""


def test_a_model_that_forges_reports(host: Start, tool: Tool) -> None:
    ascend = host()
    faulty(tool, ascend, FORGES.strip(), at=2)
    outcome = tool.collect(model="faulty")
    assert outcome.status == 0, outcome.err
    assert outcome.document["phases"]["forward"]["step_kinds"] == ["forward"] * 5


def test_an_adapter_that_needs_what_is_not_there(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    (tool.directory / "mine.py").write_text("import no_such_module\ndef load(d, o): pass\ndef forward(s): pass\n")
    tool.inventory(ascend, models={"mine": {"adapter": "./mine.py"}})
    one_error(tool.collect(model="mine"), 5, message="No module named 'no_such_module'", remedy="install")
    assert_clean(ascend)


@pytest.mark.parametrize(
    ("fault", "status", "message"),
    [
        ("export_fails", 7, "kernel_details|trace_view|run failed"),
        ("truncated_trace", 7, "trace_view.json"),
        ("no_pmu", 7, "aic_"),
        ("level0", 7, "Level0"),
        ("stop_raises", 7, "."),
        ("no_profiler_info", 7, "profiler_info"),
        ("segfault_at_stop", 6, "SIGSEGV"),
    ],
)
def test_a_profiler_that_fails_silently(
    host: Start, tool: Tool, assert_clean: Clean, fault: str, status: int, message: str
) -> None:
    ascend = host(env={"SIMHOST_LIGHT_FAULTS": fault})
    tool.inventory(ascend)
    one_error(tool.collect(), status, message=message, remedy=".")
    assert_clean(ascend)
    assert list((ascend.workdir / "runs").iterdir()), "the raw data stay on the host"


# --- space ------------------------------------------------------------------------------------------------------------

FILLS = "open('filler', 'wb').write(b'x' * (400 << 20))"


def test_too_little_space_on_the_host(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = small(host, 8)
    tool.inventory(ascend)
    one_error(
        tool.collect(), 8, message=r"not enough space on the host.*need at least 256 MiB, have \d MiB", remedy="workdir"
    )
    assert_clean(ascend)


def test_the_hosts_disk_fills_up_in_the_run(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = small(host, 300)
    faulty(tool, ascend, FILLS, at=3)
    one_error(tool.collect(model="faulty"), 8, message="No space left on device", remedy="free some")
    assert_clean(ascend)


def test_the_hosts_disk_is_full_when_the_archive_is_written(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = small(host, 300)
    # The window is closed and parsed; then somebody's file takes the rest.
    faulty(tool, ascend, "import atexit; atexit.register(os.system, 'dd if=/dev/zero of=filler bs=64k 2>/dev/null')")
    one_error(tool.collect(model="faulty"), 8, message="No space left on device", remedy="workdir")
    assert_clean(ascend)


def test_a_full_disk_here(host: Start, tool: Tool, tmp_path: Path) -> None:
    ascend = host()
    tool.inventory(ascend)
    scratch = small(host, 1, name="scratch").workdir  # any small file system will do
    one_error(tool.collect("--out", str(scratch / "result")), 8, message="not enough space", remedy="--out")
    assert list(scratch.iterdir()) == []
    assert len(list((ascend.workdir / "runs").iterdir())) == 1, "the result is kept on the host"


def test_a_directory_that_may_not_be_written(tool: Tool) -> None:
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1", "port": 1}})
    (tool.directory / "file").write_text("")
    one_error(tool.collect("--out", "file/result"), 8, message="cannot write to", remedy="--out")


def small(host: Start, megabytes: int, **options: Any) -> SimHost:
    try:
        return host(disk_mb=megabytes, **options)
    except PermissionError as error:
        pytest.skip(f"a small file system cannot be mounted: {error}")
