"""How a sweep is conducted, with cells that end as a test says: nothing keeps it, nothing is told or run wrongly."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from pathlib import Path
from typing import Any

import pytest

from collect_agent.events import Event
from collect_remote import Cancel, sweep
from collect_remote.cli.arguments import parser
from collect_remote.errors import Interrupted, RunFailed, StorageError, UnreachableError, UsageError
from collect_remote.inventory import Inventory, load
from collect_remote.parallel import in_background
from collect_remote.sweeps import whole
from collect_remote.sweeps.cells import Outcome, Progress
from collect_remote.sweeps.plan import cells_of
from collect_remote.sweeps.schedule import Limits
from collect_remote.sweeps.work import Task, ended, told

Ends = Callable[[Task, Callable[[Event], None], Cancel], Outcome]
INVENTORY = """
all:
  vars: {models: {llama: {adapter: llama}, other: {adapter: llama}}}
  hosts: {a: {address: 127.0.0.1, port: 1}, b: {address: 127.0.0.1, port: 1}}
"""


class Scripted:
    """An engine, and what it was asked for."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self.tasks: list[Task] = []

    def submit(self, task: Task, on_event: Callable[[Event], None], cancel: Cancel) -> Future[Outcome]:
        self.tasks.append(task)
        return in_background(lambda: self._ends(task, on_event, cancel))

    def stop(self) -> None:
        pass


class Seen:
    """A watch that remembers."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, str]] = []
        self.on_event = lambda: None

    def began(self, one: Progress) -> None:
        pass

    def event(self, key: str, event: Event) -> None:  # noqa: ARG002
        self.on_event()

    def ended(self, one: Progress, again_in: float | None) -> None:  # noqa: ARG002
        self.ends.append((one.cell.key, one.state))

    def tick(self, now: float) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    monkeypatch.chdir(tmp_path)
    Path("inventory.yaml").write_text(INVENTORY)
    return load("inventory.yaml")


def run(
    known: Inventory, ends: Ends, limits: Limits | None = None, hosts: str = "a", cancel: Cancel | None = None
) -> tuple[whole.Sweep, Scripted, Seen]:
    """A sweep in `here`, begun unless it is there."""
    if not Path("here").exists():
        whole.begin(cells_of(known, hosts), "here")
    engine, seen = Scripted(ends), Seen()
    return whole.go_on(Path("here"), known, limits or Limits(retries={}), lambda _: seen, engine, cancel), engine, seen


def states(done: whole.Sweep) -> list[str]:
    return [one.state for one in done.cells]


def test_what_the_run_itself_has_ended_with_is_not_asked_for_again(known: Inventory) -> None:
    """The disk of the host was full: when there is room, it takes another run, and what was lost is looked for."""
    full = StorageError("a disk of the host is full")
    full.of_run = True
    errors = {"llama": full, "other": StorageError("a disk is full here")}
    _, first, _ = run(known, lambda task, *_: ended(errors[task.request.model], "a"))
    assert whole.retry("here") == 2
    done, second, _ = run(known, lambda *_: Outcome("valid"))
    assert done.ok
    before, after = ({task.request.model: task.run_id for task in engine.tasks} for engine in (first, second))
    assert {task.request.model: task.again for task in second.tasks} == {"llama": False, "other": True}
    assert before["llama"] != after["llama"]
    assert before["other"] == after["other"]


def test_a_host_that_never_has_the_same_releases_does_not_keep_the_sweep(known: Inventory) -> None:
    count = iter(range(1000))
    done, engine, _ = run(known, lambda *_: Outcome("valid", versions={"cann": str(next(count))}))
    assert done.ok
    assert set(Counter(task.request.model for task in engine.tasks).values()) <= {1, 2}


def test_a_run_that_is_stopped_again_and_again_has_failed(known: Inventory) -> None:
    """An executor looks for an earlier attempt each time."""
    stopped = told(Interrupted("the run was stopped on request"), "a")
    done, engine, _ = run(known, lambda *_: Outcome("lost", stopped))
    assert states(done) == ["failed", "failed"]
    assert len(engine.tasks) == 4


def test_who_is_given_up_is_told(known: Inventory) -> None:
    _, engine, seen = run(known, lambda *_: ended(UnreachableError("no answer"), "a"))
    assert len(engine.tasks) == 1
    assert seen.ends == [("a/llama/default", "failed"), ("a/other/default", "failed")]


@pytest.mark.parametrize("by", [7200, -7200])
def test_setting_the_clock_ends_no_cell(known: Inventory, monkeypatch: pytest.MonkeyPatch, by: int) -> None:
    begun = threading.Event()
    real = time.time

    def later() -> float:
        return real() + (by if begun.is_set() else 0)

    def ends(_task: Task, _: object, cancel: Cancel) -> Outcome:
        begun.set()
        time.sleep(0.5)
        return Outcome("interrupted" if cancel.is_set else "valid")

    monkeypatch.setattr(time, "time", later)
    done, _, _ = run(known, ends, Limits(timeout=3600))
    assert done.ok
    assert all(0.4 < cell["seconds"] < 600 for cell in done.document["cells"])


def test_a_host_that_says_more_and_more_is_given_up_like_any_other(known: Inventory) -> None:
    over = threading.Event()

    def ends(task: Task, on_event: Callable[[Event], None], cancel: Cancel) -> Outcome:
        until = time.monotonic() + 30
        while task.request.host == "a" and not cancel.is_set and time.monotonic() < until:
            on_event({"stage": "profile"})
            time.sleep(0.0005)
        over.set()
        return Outcome("valid" if task.request.host == "b" else "failed")

    whole.begin(cells_of(known, "all", ["llama"]), "here")
    seen = Seen()
    seen.on_event = lambda: time.sleep(0.001)
    started = time.monotonic()
    done = whole.go_on(Path("here"), known, Limits(retries={}, timeout=0.5), lambda _: seen, Scripted(ends))
    assert states(done) == ["failed", "valid"]
    assert time.monotonic() - started < 20


def test_why_it_has_ended_is_said_even_when_the_reports_cannot_be_written(known: Inventory) -> None:
    whole.begin(cells_of(known, "a"), "here")
    Path("here/sweep.json").mkdir()
    cancel = Cancel()

    def ends(_task: Task, _: object, asked: Cancel) -> Outcome:
        cancel.set()
        while not asked.is_set:
            time.sleep(0.01)
        return Outcome("interrupted")

    with pytest.raises(Interrupted, match="was running and was stopped"):
        run(known, ends, cancel=cancel)
    with pytest.raises(StorageError, match="cannot write to here"):
        run(known, lambda *_: Outcome("valid"))
    assert not Path("here/sweep.json.part").exists()


@pytest.mark.parametrize("left", [True, False])
def test_what_was_left_behind_is_gone_on_with_and_what_was_stopped_is_begun_anew(known: Inventory, left: bool) -> None:
    cancel, tasks = Cancel(), []

    def ends(task: Task, _: object, asked: Cancel) -> Outcome:
        tasks.append(task)
        cancel.set()
        while not asked.is_set:
            time.sleep(0.01)
        return Outcome("interrupted", left=left)

    with pytest.raises(Interrupted):
        run(known, ends, cancel=cancel)
    done, engine, _ = run(known, lambda *_: Outcome("valid"))
    assert done.ok
    assert engine.tasks[0].again is left
    assert (engine.tasks[0].run_id == tasks[0].run_id) is left


def test_a_cell_that_was_just_about_to_start_is_waited_for_whatever_a_watch_does(known: Inventory) -> None:
    cancel = Cancel()

    def ends(_task: Task, on_event: Callable[[Event], None], asked: Cancel) -> Outcome:
        on_event({"stage": "choose"})
        cancel.set()
        while not asked.is_set:
            time.sleep(0.01)
        time.sleep(0.3)
        on_event({"stage": "start"})
        time.sleep(1.5)
        return Outcome("interrupted")

    def broken() -> None:
        if cancel.is_set:
            raise ValueError("a callback of the user's own")

    whole.begin(cells_of(known, "a", ["llama"]), "here")
    seen = Seen()
    seen.on_event = broken
    with pytest.raises((Interrupted, ValueError)):
        whole.go_on(Path("here"), known, Limits(), lambda _: seen, Scripted(ends), cancel)
    assert states(whole.status("here")) == ["pending"]


def test_a_host_that_is_no_longer_there_is_told_and_its_run_is_looked_for_when_it_is(known: Inventory) -> None:
    run(known, lambda *_: ended(UnreachableError("no answer"), "a"))
    whole.retry("here")
    Path("inventory.yaml").write_text(INVENTORY.replace("a: {address: 127.0.0.1, port: 1}, ", ""))
    done, engine, _ = run(load("inventory.yaml"), lambda *_: Outcome("valid"))
    assert states(done) == ["failed", "failed"]
    assert engine.tasks == []
    assert done.cells[0].outcome is not None
    assert "there is no host 'a'" in (done.cells[0].outcome.error or {})["message"]
    whole.retry("here")
    done, engine, _ = run(known, lambda *_: Outcome("valid"))
    assert done.ok
    assert [task.again for task in engine.tasks] == [True, False]


class Broken(Executor):
    """As a pool is after one of its workers was killed."""

    def submit(self, *_: object, **__: object) -> Future[Any]:
        raise BrokenExecutor("a child process terminated abruptly")


def test_an_executor_that_takes_nothing_any_more_is_told_of_every_cell(known: Inventory) -> None:
    done = sweep(known, cells_of(known, "all", ["llama"]), "here", limits=Limits(retries={}), executor=Broken())
    assert states(done) == ["failed", "failed"]
    assert done.exit_code == UnreachableError.exit_code
    with pytest.raises(UsageError, match="there is no sweep in nowhere"):
        sweep(known, None, "nowhere", executor=Broken())


def test_an_error_of_the_run_is_known_as_that() -> None:
    from collect_remote.collection.run import failed

    error = failed({"error": {"kind": "StorageError", "message": "full", "remedy": ""}, "log": []})
    assert not ended(error, "a").left
    assert ended(StorageError("full here"), "a").left
    assert not ended(RunFailed("it raised"), "a").left
    assert ended(Interrupted("interrupted: the result is kept on the host"), "a", "interrupted").left


@pytest.mark.parametrize(("hosts", "left"), [("a", False), ("a,b", True)])
def test_a_budget_that_is_used_up_is_told_where_something_is_left(
    known: Inventory, capsys: pytest.CaptureFixture[str], hosts: str, left: bool
) -> None:
    """Nobody listens on port 1."""
    words = ["sweep", "--hosts", hosts, "--models", "llama", "--max-fail", "0", "--retry", "unreachable=0"]
    options = parser().parse_args([*words, "--jobs", "1", "--dir", "there"])
    assert options.command(options) == (9 if left else 3)
    assert ("no further one was begun" in capsys.readouterr().err) is left
    assert not list(Path("there/profiles").rglob("*")), "nothing empty is left"
