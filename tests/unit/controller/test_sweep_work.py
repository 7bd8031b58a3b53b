"""One attempt at a cell that may have been begun before: what is here of it counts for what it is."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import results
from collect_agent.run.rundir import ARCHIVE, PARTIAL
from collect_remote import Request, load_inventory
from collect_remote.collection import manage
from collect_remote.errors import CollectError, Interrupted, UnreachableError
from collect_remote.results.store import MANIFEST
from collect_remote.sweeps import work
from collect_remote.sweeps.work import Task, perform


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """Of a run that has been published here; its host is gone."""
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("all: {hosts: {a: {address: 127.0.0.1, port: 1}}, vars: {models: {llama: {adapter: llama}}}}")

    def clean(*_: object, **__: object) -> None:
        raise UnreachableError("no answer")

    monkeypatch.setattr(manage, "clean", clean)
    out = results.publish(tmp_path)
    return Task(load_inventory(inventory).host("a"), Request("a", "llama", out=out), out.name, again=True)


def test_what_was_published_before_the_tool_was_killed_is_its_result(task: Task) -> None:
    outcome = perform(task)
    assert (outcome.state, outcome.directory) == ("valid", str(task.request.out))


def test_what_was_salvaged_before_the_tool_was_killed_is_not_valid(task: Task) -> None:
    out = task.request.out
    assert out is not None
    (out / ARCHIVE).rename(out / PARTIAL)
    manifest = json.loads((out / MANIFEST).read_text())
    (out / MANIFEST).write_text(json.dumps({**manifest, "verdict": "invalid"}))
    outcome = perform(task)
    assert (outcome.state, outcome.left) == ("failed", False)
    assert outcome.error is not None
    assert outcome.error["kind"] == "ProfileInvalid"


@pytest.mark.parametrize(("earlier", "state"), [(True, "lost"), (False, "failed")])
def test_only_an_earlier_run_that_was_stopped_is_lost(
    task: Task, monkeypatch: pytest.MonkeyPatch, earlier: bool, state: str
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise Interrupted("the run was stopped on request")

    def unknown(*_: object, **__: object) -> None:
        raise manage.NO_RUN(run=task.run_id, host="a", known="none")

    monkeypatch.setattr(manage, "attach", stopped if earlier else unknown)
    monkeypatch.setattr(work, "collect", stopped)
    out = Path("nowhere")
    assert perform(dataclasses.replace(task, request=dataclasses.replace(task.request, out=out))).state == state


def test_an_unknown_trouble_is_a_failed_cell(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise CollectError("our own")

    monkeypatch.setattr(work, "summarize", broken)
    assert perform(task).state == "failed"
