"""Sweeps: every cell once, whatever single hosts do and whatever ends the tool; what is said is what there is."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from collect_agent.output.archive import check_archive
from collect_remote import Cancel, Limits, Profile, Request, cells_of, load_inventory, sweep
from collect_remote.collection.pipeline import new_run_id
from collect_remote.errors import Interrupted
from collect_remote.sweeps import live, whole
from collect_remote.sweeps.engines import Elsewhere
from collect_remote.sweeps.work import Task, perform
from harness import Outcome, Tool, leases
from simhost import SimHost

Start = Callable[..., SimHost]

MODEL = """
import os, time
import torch

def load(device, options):
    with open(options["started"], "a") as file:
        file.write(os.environ["HOME"].split("/")[-2] + " " + str(options["number"]) + "\\n")
    if options.get("raises") and os.path.exists(options["raises"]):
        raise RuntimeError("it is out of order")
    while not os.path.exists(options["gate"]):
        time.sleep(0.05)
    return torch.ones(4, 4).to(device)

def forward(state):
    return state @ state
"""


class Models:
    """Two models of a user's own; they note that they were started, wait at a gate, and fail where `broken` says so."""

    def __init__(self, tool: Tool) -> None:
        self.started, self.gate, self.broken = (tool.directory / name for name in ("started", "gate", "broken"))
        self.gate.touch()
        self.started.touch()
        (tool.directory / "mine.py").write_text(MODEL)
        self.entries = {
            name: {
                "adapter": "./mine.py",
                "number": number,
                "gate": str(self.gate),
                "started": str(self.started),
                "raises": str(self.broken) + name,
            }
            for number, name in enumerate(("one", "two"))
        }

    def starts(self) -> Counter[str]:
        return Counter(self.started.read_text().splitlines())


@pytest.fixture
def models(tool: Tool) -> Models:
    return Models(tool)


@pytest.fixture
def two(host: Start, tool: Tool, models: Models) -> tuple[SimHost, SimHost]:
    """Hosts with these models, in an inventory."""
    both = host(), host("ascend02")
    tool.inventory(*both, models=models.entries)
    return both


def cells(outcome: Outcome) -> dict[str, Any]:
    return {cell["key"]: cell for cell in outcome.document["cells"]}


def states(outcome: Outcome) -> dict[str, str]:
    return {key: cell["state"] for key, cell in cells(outcome).items()}


def results(tool: Tool) -> list[Path]:
    return sorted(tool.directory.glob("sweeps/2*/profiles/*/*/*/profile_l1.tar.gz"))


def test_every_cell_is_valid_and_none_is_run_twice(two: tuple[SimHost, SimHost], tool: Tool, models: Models) -> None:
    done = tool("sweep", "--json")
    assert done.status == 0, done.err
    assert set(states(done)) == {f"ascend0{n}/{model}/default" for n in (1, 2) for model in ("one", "two")}
    assert done.document["ok"]
    assert done.document["counts"]["valid"] == 4
    assert len(results(tool)) == 4
    for cell in done.document["cells"]:
        assert Profile.at(tool.directory / cell["directory"]).verdict == "valid"
    place = tool.directory / "sweeps" / "latest"
    assert json.loads((place / "sweep.json").read_text()) == done.document
    with (place / "sweep.csv").open(newline="") as file:
        assert [row["state"] for row in csv.DictReader(file)] == ["valid"] * 4
    again = tool("sweep", "--resume", "--json")
    assert (again.status, again.document["cells"]) == (0, done.document["cells"])
    assert set(models.starts().values()) == {1}
    assert tool("sweep", "status", "--json").document["cells"] == done.document["cells"]
    assert leases(tool.directory.parent) == []


def test_who_fails_is_named_with_the_cause_and_only_that_is_run_again(host: Start, tool: Tool, models: Models) -> None:
    """A good host, one where nobody listens, one that does not know our key, one whose model raises."""
    good, locked, broken = host(), host("ascend02", accept_key=False), host("ascend03")
    with closing(socket.create_server(("127.0.0.1", 0))) as nobody:
        port = nobody.getsockname()[1]
    gone = {**good.inventory_entry(), "port": port}
    tool.inventory(good, locked, broken, models=models.entries, entries={"ascend04": gone})
    (tool.directory / "brokentwo").touch()
    done = tool("sweep", "--retry", "unreachable=1")
    assert done.status == 9
    assert "FAILED 6 of 8 cells" in done.out.splitlines()[-1]
    said = tool("sweep", "status", "--json")
    assert said.status == 9
    assert not said.document["ok"]
    found = cells(said)
    assert {key for key, cell in found.items() if cell["state"] == "valid"} == {
        "ascend01/one/default",
        "ascend03/one/default",
    }
    causes = {key: cell["error"]["kind"] for key, cell in found.items() if cell["error"]}
    assert causes == {
        **{f"ascend0{n}/two/default": "RunFailed" for n in (1, 3)},
        **{f"ascend02/{model}/default": "AuthError" for model in ("one", "two")},
        **{f"ascend04/{model}/default": "UnreachableError" for model in ("one", "two")},
    }
    assert found["ascend04/one/default"]["attempts"] == 2
    assert found["ascend04/two/default"]["attempts"] <= 1
    assert "given up, as ascend04/one/default had failed" in found["ascend04/two/default"]["error"]["message"]
    before = models.starts()
    (tool.directory / "brokentwo").unlink()
    locked.set_state(accept_key=True)
    gone["port"] = good.port
    tool.inventory(good, locked, broken, models=models.entries, entries={"ascend04": gone})
    healed = tool("sweep", "retry", "--failed", "--json")
    assert healed.status == 0, healed.err
    new = models.starts() - before
    assert new == Counter(["ascend01 1", "ascend03 1", "ascend02 0", "ascend02 1", "ascend01 0", "ascend01 1"])


def test_nobody_reachable_is_another_end_than_some(tool: Tool, host: Start, models: Models) -> None:
    entries = {}
    for name in ("ascend01", "ascend02"):
        with closing(socket.create_server(("127.0.0.1", 0))) as nobody:
            entries[name] = {"address": "127.0.0.1", "port": nobody.getsockname()[1]}
    tool.inventory(models=models.entries, entries=entries)
    done = tool("sweep", "--models", "one", "--retry", "unreachable=0", "--json")
    assert done.status == 3
    assert states(done) == {f"ascend0{n}/one/default": "failed" for n in (1, 2)}


def test_a_silent_host_delays_only_itself(
    two: tuple[SimHost, SimHost], tool: Tool, models: Models, client_home: Path
) -> None:
    (client_home / ".ssh" / "config").write_text("Host *\n    ConnectTimeout 6\n")
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        entry = {"address": "127.0.0.1", "port": silent.getsockname()[1]}
        tool.inventory(*two, models=models.entries, entries={"ascend03": entry})
        done = tool("sweep", "--retry", "unreachable=0", "--json")
    assert done.status == 9
    assert Counter(states(done).values()) == {"valid": 4, "failed": 2}
    silent_cell = cells(done)["ascend03/one/default"]
    began = [cell["began"] for cell in done.document["cells"] if cell["state"] == "valid"]
    assert max(began) < silent_cell["began"] + silent_cell["seconds"]


def wait_for(condition: Callable[[], bool], patience_s: float = 60.0) -> None:
    until = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("moment", ["start", "load", "pull", "publish"])
def test_killed_at_any_moment_it_goes_on_where_it_was(
    two: tuple[SimHost, SimHost], tool: Tool, models: Models, moment: str
) -> None:
    models.gate.unlink()
    process = tool.start("sweep", "--json")
    runs = [host.workdir / "runs" for host in two]
    if moment == "start":
        wait_for(lambda: any(path.glob("*") for path in runs) and any(list(path.glob("*")) for path in runs))
    elif moment == "load":
        wait_for(lambda: len(models.starts()) == 2)
    else:
        models.gate.touch()
        wanted = "*/profiles/*/*/.incoming/*/*.gz" if moment == "pull" else "*/profiles/*/*/2*/manifest.json"
        wait_for(lambda: any(tool.directory.glob(f"sweeps/{wanted}")))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert tool("sweep", "status").status == 9
    models.gate.touch()
    done = tool("sweep", "--resume", "--json")
    assert done.status == 0, done.err
    assert set(states(done).values()) == {"valid"}
    assert set(models.starts().values()) == {1}
    assert len(results(tool)) == 4
    for path in results(tool):
        assert check_archive(str(path))["manifest"]["verdict"] == "valid"
    assert not list(tool.directory.glob("sweeps/*/profiles/*/*/.incoming/*"))
    for host in two:
        assert not list((host.workdir / "runs").glob("2*"))
    assert leases(tool.directory.parent) == []


def ctrl_c_stops_it_and_it_goes_on(tool: Tool, models: Models, *options: str) -> None:
    models.gate.unlink()
    process = tool.start("sweep", *options, "--json")
    wait_for(lambda: len(models.starts()) == 2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "2 cells were running and were stopped" in json.loads(out)["error"]["message"]
    assert leases(tool.directory.parent) == []
    models.gate.touch()
    done = tool("sweep", "--resume", "--json")
    assert (done.status, set(states(done).values())) == (0, {"valid"})


def test_ctrl_c_stops_what_is_running(two: tuple[SimHost, SimHost], tool: Tool, models: Models) -> None:
    ctrl_c_stops_it_and_it_goes_on(tool, models)


def test_a_cell_that_stands_for_something_else_is_run_anew_and_the_old_result_is_kept(
    two: tuple[SimHost, SimHost], tool: Tool, models: Models
) -> None:
    assert tool("sweep", "--models", "one").status == 0
    models.entries["one"]["number"] = 7
    tool.inventory(*two, models=models.entries)
    done = tool("sweep", "--resume", "--json")
    assert (done.status, Counter(states(done).values())) == (0, {"valid": 2})
    assert models.starts() == Counter(["ascend01 0", "ascend02 0", "ascend01 7", "ascend02 7"])
    assert len(results(tool)) == 4


def test_a_budget_of_failures_and_the_time_of_a_cell(two: tuple[SimHost, SimHost], tool: Tool, models: Models) -> None:
    (tool.directory / "brokenone").touch()
    done = tool("sweep", "--jobs", "1", "--max-fail", "25%", "--json")
    assert done.status == 9
    assert Counter(states(done).values()) == {"failed": 2, "pending": 2}
    models.gate.unlink()
    late = tool("sweep", "--resume", "--cell-timeout", "5", "--json")
    assert late.status == 6
    assert "not done after 5 s" in cells(late)["ascend01/two/default"]["error"]["message"]
    assert leases(tool.directory.parent) == []


def test_devices_of_one_host_are_shared(host: Start, tool: Tool, models: Models) -> None:
    tool.inventory(host(), models=models.entries)
    models.gate.unlink()
    process = tool.start("sweep", "--per-host", "2", "--json")
    wait_for(lambda: len(models.starts()) == 2)
    assert len(leases(tool.directory.parent)) == 2
    models.gate.touch()
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_from_python_with_events_and_a_way_to_cancel(
    two: tuple[SimHost, SimHost], tool: Tool, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tool.directory)
    known, cancel, events = load_inventory("inventory.yaml"), Cancel(), []
    models.gate.unlink()

    def told(event: dict[str, Any]) -> None:
        events.append((event["cell"], event["stage"]))
        if [stage for _, stage in events].count("load") == 2:
            cancel.set()

    before = descriptors(), threading.active_count()
    with pytest.raises(Interrupted, match="2 cells were running and were stopped"):
        sweep(known, cells_of(known, models=["one"]), "here", on_event=told, cancel=cancel)
    models.gate.touch()
    done = sweep(known, None, "here", limits=Limits(jobs=1))
    assert done.ok
    assert [one.state for one in done.cells] == ["valid", "valid"]
    assert ("ascend01/one/default", "began") in events
    wait_for(lambda: (descriptors(), threading.active_count()) == before)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_result_on_its_way_is_brought_later_and_what_was_stopped_is_begun_anew(
    two: tuple[SimHost, SimHost], tool: Tool, models: Models
) -> None:
    known = load_inventory(tool.directory / "inventory.yaml").host("ascend01")

    def task(model: str) -> Task:
        run_id = new_run_id()
        return Task(known, Request("ascend01", model, out=tool.directory / "profiles" / run_id), run_id)

    def left_at(stage: str, task: Task) -> tuple[str, bool]:
        cancel = Cancel()
        outcome = perform(task, lambda event: cancel.set() if event["stage"] == stage else None, cancel)
        return outcome.state, outcome.left

    assert left_at("load", task("two")) == ("interrupted", False)
    one = task("one")
    assert left_at("pull", one) == ("interrupted", True)
    assert perform(dataclasses.replace(one, again=True)).state == "valid"
    assert models.starts()["ascend01 0"] == 1


def test_any_executor_takes_the_cells(
    two: tuple[SimHost, SimHost], tool: Tool, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tool.directory)
    known = load_inventory("inventory.yaml")
    with ProcessPoolExecutor(2) as executor:
        done = sweep(known, cells_of(known), executor=executor)
    assert done.ok, done.text
    assert len(results(tool)) == 4
    assert not list(done.directory.glob(".sweep-*"))


def test_results_come_back_from_where_the_directory_is_not_seen(
    two: tuple[SimHost, SimHost], tool: Tool, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tool.directory)
    known = load_inventory("inventory.yaml")
    place = whole.begin(cells_of(known, models=["one"]), "far")
    with ProcessPoolExecutor(2) as executor, Elsewhere(executor, place) as engine:
        engine.mark.unlink()
        done = whole.go_on(place, known, Limits(), live.view, engine)
    assert done.ok, done.text
    for one in done.cells:
        assert one.outcome is not None
        assert one.outcome.directory is not None
        assert Path(one.outcome.directory).is_relative_to(place.absolute())
        assert Profile.at(one.outcome.directory).verdict == "valid"
    assert sorted(path.name for path in Path(one.outcome.directory).iterdir()) == [
        *("manifest.json", "profile_l1.tar.gz", "run.log"),
    ]


def test_what_is_not_valid_is_not_counted_as_such(host: Start, tool: Tool) -> None:
    """A host whose profile fails its checks after everything else went well."""
    tool.inventory(host(), host("ascend02", env={"SIMHOST_LIGHT_FAULTS": "no_prof_dir"}))
    done = tool("sweep", "--phases", "decode")
    assert done.status == 9
    assert done.out.splitlines()[-1].startswith("FAILED 1 of 2 cells")
    said = tool("sweep", "status", "--json").document
    assert (said["ok"], said["exit_code"], said["counts"]["failed"]) == (False, 9, 1)
