"""A sweep gone on with: held against the inventory of today and against what is there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from collect_remote import cells_of, load_inventory
from collect_remote.errors import Interrupted, UsageError
from collect_remote.inventory import Inventory
from collect_remote.sweeps import engines, live, whole
from collect_remote.sweeps.cells import Outcome, Progress
from collect_remote.sweeps.conduct import Conductor
from collect_remote.sweeps.journal import Journal
from collect_remote.sweeps.schedule import Limits

MODEL = "def load(device, options): ...\ndef forward(state): ...\n"


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MODEL)
    Path("inventory.yaml").write_text("all: {vars: {models: {mine: {adapter: ./mine.py}}}, hosts: {a: , b: }}")
    return load_inventory("inventory.yaml")


@pytest.fixture
def begun(inventory: Inventory) -> Path:
    """A sweep of two cells: of a valid, b not run."""
    place = whole.begin(cells_of(inventory), "s")
    result = (place / "profiles" / "a" / "mine" / "run").absolute()
    result.mkdir(parents=True)
    (result / "profile_l1.tar.gz").touch()
    with Journal(place) as journal:
        journal.begin("a/mine/default", "run")
        journal.end("a/mine/default", Outcome("valid", directory=str(result)), "valid")
    return place


def renewed(place: Path, inventory: Inventory) -> dict[str, Progress]:
    with Journal(place) as journal:
        whole._renew(journal, inventory)
        return {one.cell.host: one for one in journal.cells()}


def test_cells_that_are_none_or_twice_there_begin_no_sweep(inventory: Inventory) -> None:
    cells = cells_of(inventory, models="mine", phases="forward")
    assert [one.key for one in cells] == ["a/mine/forward", "b/mine/forward"]
    for wrong, message in (((), "has no cells"), (cells + cells, "has the cell 'a/mine/forward' 2 times")):
        with pytest.raises(UsageError, match=message):
            whole.begin(wrong, "s")
    assert not Path("s").exists()


def test_a_result_that_was_removed_is_no_result(begun: Path, inventory: Inventory) -> None:
    assert renewed(begun, inventory)["a"].state == "valid"
    moved = begun.rename("moved")
    assert renewed(moved, inventory)["a"].state == "valid"
    shutil.rmtree(moved / "profiles" / "a")
    assert renewed(moved, inventory)["a"].state == "pending"


def test_an_adapter_that_has_gone_meanwhile_fails_what_needs_it(begun: Path, inventory: Inventory) -> None:
    Path("mine.py").unlink()
    now = renewed(begun, inventory)
    assert [now[name].state for name in "ab"] == ["valid", "failed"]
    outcome = now["b"].outcome
    assert outcome is not None and outcome.error is not None
    assert "cannot read the adapter of model mine" in outcome.error["message"]


def test_pressed_again_while_the_report_is_written_it_still_says_how_to_go_on(
    begun: Path, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise Interrupted("interrupted: 1 cell was running", "--resume goes on")

    def pressed(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Conductor, "run", interrupted)
    monkeypatch.setattr(whole.Sweep, "save", pressed)
    with pytest.raises(Interrupted, match="1 cell was running"):
        whole.go_on(begun, inventory, Limits(), live.view, engines.Here())
