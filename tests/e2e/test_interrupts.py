"""Ctrl-C at any moment, killed controllers, broken connections: the host is clean, or the run goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collect_agent.events import Event
from collect_agent.run.process import start_time
from collect_remote import Request, collect, load_inventory
from collect_remote.cancel import Cancel
from collect_remote.errors import Interrupted
from harness import Tool, end, gone, leases, read_until
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]

SLOW = """
import time
import torch

def load(device, options):
    time.sleep({load})
    return torch.ones(4, 4).to(device)

def forward(state):
    time.sleep({step})
    return state @ state
"""


def slow(tool: Tool, host: SimHost, load: float = 0.0, step: float = 0.0) -> None:
    (tool.directory / "slow.py").write_text(SLOW.format(load=load, step=step))
    tool.inventory(host, models={"slow": {"adapter": "./slow.py"}})


def begin(tool: Tool, until: str, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """Start a collection and read what it says up to the line with `until`."""
    process = tool.start("--host", "ascend01", "--model", "slow", "--json", *arguments)
    return process, read_until(process, until)


@pytest.mark.parametrize(
    ("until", "times"),
    [
        ("loading the model", {"load": 30}),
        ("warming up", {"step": 0.5}),
        ("profiling: forward step 1", {"step": 0.5}),
    ],
    ids=["load", "warm-up", "window"],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_interrupted_in_the_run(
    host: Start, tool: Tool, assert_clean: Clean, until: str, times: dict[str, Any], number: int
) -> None:
    ascend = host()
    slow(tool, ascend, **times)
    process, said = begin(tool, until)
    process.send_signal(number)
    outcome = end(process, said)
    assert outcome.status == 130, outcome.err
    assert "was stopped on ascend01, nothing of it is left" in outcome.err
    assert outcome.document["error"]["kind"] == "Interrupted"
    assert_clean(ascend)


def test_interrupted_while_the_run_starts(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    slow(tool, ascend, load=30)
    process, said = begin(tool, "starting the run")
    process.send_signal(signal.SIGINT)
    assert end(process, said).status == 130
    time.sleep(1)  # a run that only starts after it was stopped would be up by then
    assert_clean(ascend)


def test_interrupted_twice_leaves_at_once(host: Start, tool: Tool) -> None:
    ascend = host()
    (tool.directory / "slow.py").write_text(
        SLOW.format(load=0, step=0).replace(
            "def load(device, options):",
            "def load(device, options):\n    import signal; signal.signal(15, signal.SIG_IGN)\n    time.sleep(60)",
        )
    )
    tool.inventory(ascend, models={"slow": {"adapter": "./slow.py"}})
    process, said = begin(tool, "loading the model")
    time.sleep(0.5)  # until the model has made itself deaf to the first request
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    outcome = end(process, said)
    assert outcome.status == 130
    assert "may still be going on" in outcome.err
    assert re.search(r"`collect-remote stop \S+ --host ascend01` ends it", outcome.err)
    assert gone(ascend.processes, patience_s=20), "the first request is carried out all the same"


def test_interrupted_in_the_survey(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host(npu_smi_delay=20)
    slow(tool, ascend)
    process, said = begin(tool, "looking at the host")
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    outcome = end(process, said)
    assert outcome.status == 130
    assert "nothing was started on the host" in outcome.err
    assert_clean(ascend)


def test_interrupted_while_connecting(tool: Tool, assert_clean: Clean) -> None:
    listener = __import__("socket").create_server(("127.0.0.1", 0))  # accepts, and says nothing
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1", "port": listener.getsockname()[1]}})
    process, said = begin_llama(tool, "connecting")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    outcome = end(process, said)
    listener.close()
    assert outcome.status == 130, outcome.err
    assert_clean()


def begin_llama(tool: Tool, until: str) -> tuple[subprocess.Popen[str], str]:
    process = tool.start("--host", "ascend01", "--model", "llama", "--json")
    assert process.stderr is not None
    return process, next(line for line in process.stderr if until in line)


IMPATIENT = """
import sys
from collect_remote.cli.main import main
from collect_remote.collection import launch
launch.ORPHAN_S = 2.0
launch.ORPHAN_SLACK_S = 1.0
sys.exit(main(sys.argv[1:]))
"""


def test_a_killed_controller_leaves_an_orphan_that_ends_itself(
    host: Start, tool: Tool, tmp_path: Any, assert_clean: Clean
) -> None:
    ascend = host()
    slow(tool, ascend, load=60)
    process = subprocess.Popen(
        [sys.executable, "-c", IMPATIENT, "--host", "ascend01", "--model", "slow", "--reconnect-for", "1s"],
        cwd=tool.directory,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stderr is not None
    assert any("loading the model" in line for line in process.stderr)
    process.kill()
    process.communicate()
    assert leases(tmp_path), "the run is still going on"
    assert gone(ascend.processes, patience_s=20)
    assert leases(tmp_path) == []
    assert ascend.held() == {}


def test_a_killed_supervisor_takes_its_worker_along(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    slow(tool, ascend, load=60)
    process, said = begin(tool, "loading the model")
    (run,) = (ascend.workdir / "runs").iterdir()
    os.kill(json.loads((run / "pid.json").read_text())["pid"], signal.SIGKILL)
    outcome = end(process, said)
    assert outcome.status == 6, outcome.err
    assert "the supervisor of the run died" in outcome.err
    assert_clean(ascend)


ESCAPES = """
import os, subprocess, sys
import torch

CHILD = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"

def load(device, options):
    environment = {} if options["clean"] else None
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], start_new_session=True, env=environment, close_fds=False, stdout=subprocess.PIPE
    )
    child.stdout.readline()
    with open(options["told"], "w") as file:
        file.write(str(child.pid))
    return torch.ones(4, 4).to(device)

def forward(state):
    import time
    time.sleep(SLEEP)
    return state @ state
"""


def escapes(tool: Tool, host: SimHost, told: Path, *, clean: bool, step: float) -> None:
    """A model that leaves a child in a session of its own, deaf to SIGTERM, with every descriptor it can have."""
    (tool.directory / "slow.py").write_text(ESCAPES.replace("SLEEP", str(step)))
    tool.inventory(host, models={"slow": {"adapter": "./slow.py", "told": str(told), "clean": clean}})


def test_a_child_with_a_clean_environment_ends_with_a_good_run(host: Start, tool: Tool, tmp_path: Path) -> None:
    ascend = host()
    escapes(tool, ascend, tmp_path / "child", clean=True, step=0)
    outcome = tool.collect(model="slow")
    assert outcome.status == 0, outcome.err
    assert start_time(int((tmp_path / "child").read_text())) is None
    assert leases(tmp_path) == []


def test_a_killed_supervisors_run_is_ended_by_who_follows(
    host: Start, tool: Tool, tmp_path: Path, assert_clean: Clean
) -> None:
    ascend = host()
    escapes(tool, ascend, tmp_path / "child", clean=False, step=60)
    running, said = begin(tool, "checking")
    (run,) = (ascend.workdir / "runs").iterdir()
    os.kill(json.loads((run / "pid.json").read_text())["pid"], signal.SIGKILL)
    outcome = end(running, said)
    assert outcome.status == 6, outcome.err
    assert start_time(int((tmp_path / "child").read_text())) is None
    assert_clean(ascend)


def test_a_cut_connection_costs_nothing(host: Start, tool: Tool) -> None:
    ascend = host()
    slow(tool, ascend, step=0.15)
    process, said = begin(tool, "profiling: forward step 1")
    ascend.drop_connections()
    outcome = end(process, said)
    assert outcome.status == 0, outcome.err
    assert outcome.document["phases"]["forward"]["step_kinds"] == ["forward"] * 5
    assert outcome.err.count("profiling: forward step 5 of 5") == 1, "no event comes twice"


def test_a_pull_goes_on_where_it_broke(host: Start, tool: Tool) -> None:
    ascend = host()
    noisy = SLOW.format(load=0, step=0) + "\nimport os\nfor _ in range(150):\n    print(os.urandom(1 << 18).hex())\n"
    (tool.directory / "slow.py").write_text(noisy)
    tool.inventory(ascend, models={"slow": {"adapter": "./slow.py"}})
    process, said = begin(tool, "pulling")
    time.sleep(0.15)
    ascend.drop_connections()
    outcome = end(process, said)
    assert outcome.status == 0, outcome.err
    log = tool.directory / outcome.document["directory"] / "run.log"
    assert log.stat().st_size > 150 * (1 << 19)


def test_an_interrupt_while_classes_are_made_has_its_status_too(tool: Tool, tmp_path: Path) -> None:
    """Modules are imported when they are needed, and make data classes by `exec`: Ctrl-C may come in there."""
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1", "port": 1}})
    (tmp_path / "yaml.py").write_text('exec("raise KeyboardInterrupt")\n')
    done = subprocess.run(
        [sys.executable, "-m", "collect_remote", "devices", "--host", "ascend01"],
        cwd=tool.directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.splitlines()[0]) == (130, "error: interrupted")


def test_another_thread_cancels_as_a_ctrl_c_would(
    host: Start, tool: Tool, assert_clean: Clean, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated = host()
    slow(tool, simulated, load=30.0)
    monkeypatch.chdir(tool.directory)
    known, cancel, stages = load_inventory("inventory.yaml").host("ascend01"), Cancel(), []

    def told(event: Event) -> None:
        stages.append(event["stage"])
        if event["stage"] == "load":
            cancel.set()

    with pytest.raises(Interrupted, match="was stopped on ascend01, nothing of it is left"):
        collect(Request(host="ascend01", model="slow"), known, told, cancel=cancel)
    assert stages[-1] == "load"
    assert_clean(simulated)
