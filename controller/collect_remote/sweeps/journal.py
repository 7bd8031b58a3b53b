"""The journal of a sweep: one SQLite file in which every change of state is on the disk before it is acted on.

Whoever is killed leaves a journal that says what was going on: a cell that is "running" there has a run id that may or
may not be known on its host. One process at a time writes it, under a lock; others may read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from collect_agent.run.rundir import sync_directory

from ..errors import StorageError, Trouble, UsageError, one_line, storage_error
from ..request import Request
from .cells import Cell, Outcome, Progress

NAME = "journal.sqlite"
FORMAT = 1
BUSY_S = 10.0  # for a reader, while the writer writes
SCHEMA = """
create table sweep (name text primary key, value text not null) without rowid;
create table cell (
    id integer primary key,        -- the order of the cells
    key text not null,
    digest text not null,
    model_digest text not null,
    request text not null,         -- JSON of Request
    current integer not null,      -- 0: it was asked for under other circumstances; its results are kept
    state text not null,           -- pending, running, valid, failed
    due real not null,             -- when it may be tried again, seconds since the epoch
    outcome text                   -- JSON of Outcome: the last there was
);
create unique index one_is_current on cell (key) where current;
create table attempt (
    cell integer not null references cell,
    number integer not null,       -- from 1
    run_id text not null,
    began real not null,
    ended real,
    outcome text,                  -- JSON of Outcome
    primary key (cell, number)
) without rowid;
"""
INSERT = (
    "insert into cell (key, digest, model_digest, request, current, state, due) values (?, ?, ?, ?, 1, 'pending', 0)"
)
BEGIN = """
insert into attempt (cell, number, run_id, began)
select id, (select coalesce(max(number), 0) + 1 from attempt where cell = cell.id), ?, ? from cell
where key = ? and current
"""
END = """
update attempt set ended = ?, outcome = ?
where ended is null and cell = (select id from cell where key = ? and current)
"""
NOT_A_SWEEP = Trouble(
    "no-sweep",
    UsageError,
    "there is no sweep in {directory}",
    "`sweep --resume`, `status` and `retry` go on with a sweep that was begun, the last one in sweeps/ unless told",
    "name its directory with --dir, or begin one",
)
BEGUN = Trouble(
    "sweep-exists",
    UsageError,
    "there is a sweep in {directory} already",
    "a sweep has a directory of its own, and its journal is never overwritten",
    "go on with it: `collect-remote sweep --resume --dir {directory}`, or name another directory",
)
BUSY = Trouble(
    "sweep-busy",
    UsageError,
    "another process works on the sweep in {directory}",
    "one process at a time runs the cells of a sweep, so that none is run twice",
    "wait until it has ended, or end it; `collect-remote sweep status --dir {directory}` shows how far it is",
)
DAMAGED = Trouble(
    "journal-damaged",
    StorageError,
    "the journal {file} cannot be used: {why}",
    "its disk failed or is full, another program wrote to it, or another release of collect-remote did",
    "free space there or bring back a copy; results that were published stay where they are",
)


class Journal:
    """An open journal. Use as a context manager. StorageError when it cannot be read or written."""

    def __init__(self, directory: Path, *, write: bool = True) -> None:
        """UsageError when there is none, or somebody else writes it."""
        self.directory = directory
        self._file = directory / NAME
        self._lock: IO[bytes] | None = None
        with self._told(), contextlib.ExitStack() as on_failure:
            if not self._file.is_file():
                raise NOT_A_SWEEP(directory=directory)
            if write:
                self._lock = on_failure.enter_context(_locked(directory))
            # A reader too may have to take back what a killed writer has left half done.
            self._base = sqlite3.connect(
                f"{self._file.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=BUSY_S
            )
            on_failure.callback(self._base.close)
            self._base.execute("pragma synchronous = extra")
            if self.said("format") != FORMAT:
                raise DAMAGED(file=self._file, why=f"its format is {self.said('format')}, not {FORMAT}")
            on_failure.pop_all()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()
        if self._lock:
            self._lock.close()

    def said(self, name: str) -> Any:
        """What was written down when the sweep began; None for what was not."""
        with self._told():
            row = self._base.execute("select value from sweep where name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def cells(self) -> list[Progress]:
        """The cells that are asked for now, in their order."""
        query = """
            select key, digest, model_digest, request, state, due, number, run_id, began, ended, cell.outcome from cell
            left join attempt on attempt.cell = cell.id
                and number = (select max(number) from attempt where cell = cell.id)
            where current order by id
        """
        with self._told():
            return [_progress(*row) for row in self._base.execute(query).fetchall()]

    def attempts(self, key: str) -> list[Progress]:
        """Every attempt at a cell, the oldest first; those of cells that it has replaced as well."""
        query = """
            select key, digest, model_digest, request, case when ended is null then 'running' else 'ended' end, due,
                number, run_id, began, ended, attempt.outcome from cell
            join attempt on attempt.cell = cell.id where key = ? order by id, number
        """
        with self._told():
            return [_progress(*row) for row in self._base.execute(query, (key,)).fetchall()]

    def begin(self, key: str, run_id: str) -> None:
        """An attempt at a cell is about to be made, under this id."""
        self._write(
            (BEGIN, (run_id, time.time(), key)),
            ("update cell set state = 'running' where key = ? and current", (key,)),
        )

    def end(self, key: str, outcome: Outcome, state: str, due: float = 0.0) -> None:
        """It has ended like this: "valid", "failed", or "pending" until `due`."""
        self._write(*_ending(key, outcome, state, due))

    def give_up(self, outcomes: Mapping[str, Outcome]) -> None:
        """These cells have failed without having been tried."""
        self._write(
            *(statement for key, outcome in outcomes.items() for statement in _ending(key, outcome, "failed", 0.0))
        )

    def again(self, keys: Iterable[str]) -> None:
        """They are to be run (once more); what they have brought is kept."""
        self._write(*(("update cell set state = 'pending', due = 0 where key = ? and current", (key,)) for key in keys))

    def replace(self, cell: Cell) -> None:
        """It stands for something else than it did: earlier attempts are not its own, and what they brought is kept."""
        self._write(
            ("update cell set current = 0 where key = ? and current", (cell.key,)),
            (INSERT, _row(cell)),
        )

    def _write(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        """All of them, or none; on the disk when this returns."""
        with self._told():
            self._base.execute("begin immediate")
            try:
                for text, values in statements:
                    self._base.execute(text, values)
                self._base.execute("commit")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._base.execute("rollback")
                raise

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError, KeyError, AttributeError) as error:
            raise DAMAGED(file=self._file, why=one_line(str(error))) from error
        except OSError as error:
            raise storage_error(self.directory, error, "--dir") from error


def _ending(key: str, outcome: Outcome, state: str, due: float) -> Iterator[tuple[str, tuple[Any, ...]]]:
    told = json.dumps(dataclasses.asdict(outcome))
    yield END, (time.time(), told, key)
    yield "update cell set state = ?, due = ?, outcome = ? where key = ? and current", (state, due, told, key)


def create(directory: Path, cells: Sequence[Cell]) -> None:
    """Begin a journal, whole or not at all. UsageError when there is one."""
    file = directory / NAME
    fresh = directory / f"{NAME}.{os.urandom(8).hex()}.part"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(file):
            raise BEGUN(directory=directory)
        with contextlib.closing(sqlite3.connect(fresh)) as base:
            base.executescript(SCHEMA)
            facts = {"format": FORMAT, "created": time.time()}
            base.executemany("insert into sweep values (?, ?)", [(n, json.dumps(v)) for n, v in facts.items()])
            base.executemany(INSERT, [_row(cell) for cell in cells])
            base.commit()
        try:
            os.link(fresh, file)  # unlike a rename, this replaces nothing
            sync_directory(directory)
        except FileExistsError:
            raise BEGUN(directory=directory) from None
    except (OSError, sqlite3.Error) as error:
        told = error if isinstance(error, OSError) else OSError(str(error))
        raise storage_error(directory, told, "--dir") from error
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def _locked(directory: Path) -> IO[bytes]:
    """The lock of a sweep; gone with the process. UsageError when another has it."""
    file = os.fdopen(os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise BUSY(directory=directory) from None
    except OSError:  # a file system without locks
        pass
    return file


def _progress(
    key: str,
    digest: str,
    model_digest: str,
    request: str,
    state: str,
    due: float,
    number: int | None,
    run_id: str | None,
    began: float | None,
    ended: float | None,
    outcome: str | None,
) -> Progress:
    asked = _read(request)
    cell = Cell(key, asked.host, asked.model, asked, digest, model_digest)
    return Progress(
        *(cell, state, number or 0, run_id, began, ended), Outcome(**json.loads(outcome)) if outcome else None, due
    )


def _row(cell: Cell) -> tuple[str, ...]:
    request = json.dumps(dataclasses.asdict(cell.request), default=str)
    return cell.key, cell.digest, cell.model_digest, request


def _read(text: str) -> Request:
    said = json.loads(text)
    out = said.pop("out")
    lists = {name: tuple(value) for name, value in said.items() if isinstance(value, list)}
    return Request(**{**said, **lists}, out=Path(out) if out else None)
