"""A whole sweep: its directory, its cells, its end; from Python and from the command line.

sweeps/<time>/{journal.sqlite, sweep.json, sweep.csv, profiles/<host>/<model>/<run id>/}, sweeps/latest -> <time>
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from collect_agent.events import Event
from collect_agent.run.rundir import ARCHIVE

from ..cancel import Cancel
from ..errors import CollectError
from ..inventory import Inventory
from . import journal as journals
from . import peers, report, table
from .cells import Cell, Outcome, Progress, digest, model_digest
from .conduct import Conductor, Watch
from .engines import Elsewhere, Engine, here
from .journal import Journal
from .peers import Finding
from .plan import checked, tool
from .schedule import Limits
from .work import told

ROOT = Path("sweeps")


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep and what there is of it: its cells, in their order, and the hosts that are slower than their peers.

    `started`: seconds since the epoch.
    """

    directory: Path
    cells: tuple[Progress, ...]
    slower: tuple[Finding, ...]
    started: float

    @property
    def ok(self) -> bool:
        """Whether every cell is valid."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """0; 9 when a cell has failed or was not run; that of its errors when they agree and nothing is valid."""
        return report.exit_code(self.cells)

    @property
    def document(self) -> dict[str, Any]:
        """`sweep.json` (docs/sweep.schema.json)."""
        return report.document(self.cells, self.slower, self.directory, self.started)

    @property
    def text(self) -> str:
        """As a table."""
        return table.table(self.cells, self.slower)

    def save(self) -> None:
        """Write sweep.json and sweep.csv. StorageError."""
        report.write(self.directory / "sweep.json", json.dumps(self.document, indent=1) + "\n")
        report.write(self.directory / "sweep.csv", report.csv_text(self.cells, self.slower))


def sweep(
    inventory: Inventory,
    cells: Sequence[Cell] | None,
    directory: Path | str | None = None,
    *,
    limits: Limits | None = None,
    executor: Executor | None = None,
    on_event: Callable[[dict[str, Any]], None] | None = None,
    cancel: Cancel | None = None,
) -> Sweep:
    """Run cells (see `cells_of`), and say what there is then; without cells, go on with the sweep that is there.

    `directory`: of the sweep, a new one in sweeps/ if not given, or the latest to go on with. `executor`: where cells
    run, if not in threads of this process. `on_event`: called in this thread with the events of `collect` and "began"
    and "ended" of every attempt, each with its "cell". What fails in a cell is in the result. Interrupted by
    KeyboardInterrupt or `cancel`, UsageError, StorageError.
    """
    place = found(directory) if cells is None else begin(cells, directory)
    with Elsewhere(executor, place) if executor else here(place) as engine:
        return go_on(place, inventory, limits or Limits(), lambda _: _Told(on_event), engine, cancel)


def begin(cells: Sequence[Cell], directory: Path | str | None = None) -> Path:
    """The directory of a new sweep. UsageError where there is one, and for cells that are none or stand there twice."""
    cells = checked(tuple(cells))
    place = ROOT / f"{datetime.now():%Y%m%d_%H%M%S}_{os.urandom(2).hex()}" if directory is None else Path(directory)
    journals.create(place, cells)
    if directory is None:
        with contextlib.suppress(OSError):  # whatever `latest` is there
            fresh = ROOT / f".latest-{place.name}"
            fresh.symlink_to(place.name)
            fresh.replace(ROOT / "latest")
    return place


def found(directory: Path | str | None) -> Path:
    """The sweep that is meant: the latest unless named."""
    if directory is not None:
        return Path(directory)
    latest = ROOT / "latest"
    return ROOT / latest.readlink() if latest.is_symlink() else latest


def go_on(
    place: Path,
    inventory: Inventory,
    limits: Limits,
    look: Callable[[Sequence[Progress]], Watch],
    engine: Engine,
    cancel: Cancel | None = None,
) -> Sweep:
    """Run what is not valid and has not failed. The reports are written however that ends.

    `look`: who watches, from the cells as they are.
    """
    with Journal(place) as journal:
        _renew(journal, inventory)
        watch = look(journal.cells())
        try:
            Conductor(journal, inventory.by_name, limits, watch, engine).run(cancel)
        except BaseException:
            watch.close()
            with contextlib.suppress(CollectError, KeyboardInterrupt):  # why it has ended says more
                _reported(journal).save()
            raise
        watch.close()
        result = _reported(journal)
        result.save()
    return result


def status(directory: Path | str | None) -> Sweep:
    """What there is of a sweep, also while it goes on."""
    with Journal(found(directory), write=False) as journal:
        return _reported(journal)


def retry(directory: Path | str | None) -> int:
    """Have the cells that failed run again when the sweep goes on; how many."""
    with Journal(found(directory)) as journal:
        failed = [one.cell.key for one in journal.cells() if one.state == "failed"]
        journal.again(failed)
        return len(failed)


def _renew(journal: Journal, inventory: Inventory) -> None:
    """Hold every cell against the inventory and the tool of today, and its result against what is there.

    What stands for something else is run anew, and so is what somebody has removed.
    """
    ours = tool()
    for one in journal.cells():
        try:
            host = inventory.host(one.cell.host)
            now = digest(host, one.cell.request, ours)
        except CollectError as gone:
            if one.state in ("pending", "running"):
                left = one.state == "running" or bool(one.outcome and one.outcome.left)
                journal.end(one.cell.key, Outcome("failed", told(gone, one.cell.host), left=left), "failed")
        else:
            if now != one.cell.digest:
                model = model_digest(host.model(one.cell.model))
                journal.replace(dataclasses.replace(one.cell, digest=now, model_digest=model))
            elif one.state == "valid" and not _is_there(one, journal.directory):
                journal.again([one.cell.key])


def _is_there(one: Progress, directory: Path) -> bool:
    """Whether its result is where it was published, or where that is since somebody moved the sweep."""
    published = Path((one.outcome and one.outcome.directory) or "")
    moved = directory / "profiles" / one.cell.host / one.cell.model / published.name
    return any((place / ARCHIVE).is_file() for place in (published, moved))


def _reported(journal: Journal) -> Sweep:
    cells = journal.cells()
    return Sweep(journal.directory, tuple(cells), tuple(peers.slower(peers.rows(cells))), journal.said("created"))


class _Told:
    """A watch that tells a callback."""

    def __init__(self, on_event: Callable[[dict[str, Any]], None] | None) -> None:
        self._say = on_event or (lambda _: None)

    def began(self, one: Progress) -> None:
        self._say({"cell": one.cell.key, "stage": "began", "attempt": one.attempts, "run": one.run_id})

    def event(self, key: str, event: Event) -> None:
        self._say({**event, "cell": key})

    def ended(self, one: Progress, again_in: float | None) -> None:
        error = one.outcome.error if one.outcome else None
        self._say({"cell": one.cell.key, "stage": "ended", "state": one.state, "error": error, "again_in": again_in})

    def tick(self, now: float) -> None:
        pass

    def close(self) -> None:
        pass
