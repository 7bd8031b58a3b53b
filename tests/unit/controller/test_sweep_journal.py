"""The journal: what it was told is there for whoever opens it next, whatever happened to the one before."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import sweeps
from collect_remote.errors import StorageError, UsageError
from collect_remote.request import Request
from collect_remote.sweeps import whole
from collect_remote.sweeps.cells import Cell, Outcome, Progress
from collect_remote.sweeps.journal import NAME, Journal, create
from collect_remote.sweeps.report import write

ASKED = Request("a", "m", phase="decode", devices=("1", "logic:2"), steps=7)
CELLS = [Cell("a/m/decode", "a", "m", ASKED, "d1"), Cell("b/m/decode", "b", "m", Request("b", "m"), "d2")]


def known(directory: Path) -> dict[str, Progress]:
    with Journal(directory, write=False) as journal:
        return {one.cell.key: one for one in journal.cells()}


def test_a_cell_comes_back_as_it_was_written(tmp_path: Path) -> None:
    create(tmp_path / "s", CELLS)
    assert [one.cell for one in known(tmp_path / "s").values()] == CELLS


def test_every_change_of_state_is_kept(tmp_path: Path) -> None:
    create(tmp_path, CELLS)
    lost = sweeps.failed(sweeps.pending()).outcome
    valid = Outcome("valid", None, "d", {"profiles": [sweeps.profile()]}, {"cann": "8"})
    assert lost is not None
    with Journal(tmp_path) as journal:
        journal.begin("a/m/decode", "r1")
        assert (known(tmp_path)["a/m/decode"].state, known(tmp_path)["a/m/decode"].run_id) == ("running", "r1")
        journal.end("a/m/decode", lost, "pending", due=5.0)
        assert known(tmp_path)["a/m/decode"].due == 5.0
        journal.begin("a/m/decode", "r2")
        journal.end("a/m/decode", valid, "valid")
        journal.end("b/m/decode", lost, "failed")
        attempts = journal.attempts("a/m/decode")
    one, other = known(tmp_path).values()
    assert (one.state, one.attempts, one.run_id, one.outcome) == ("valid", 2, "r2", valid)
    assert (other.state, other.attempts, other.outcome) == ("failed", 0, lost)
    assert [(past.run_id, past.outcome) for past in attempts] == [("r1", lost), ("r2", valid)]


def test_what_stands_for_something_else_is_run_anew_and_the_old_is_kept(tmp_path: Path) -> None:
    create(tmp_path, CELLS)
    with Journal(tmp_path) as journal:
        journal.begin("a/m/decode", "r1")
        journal.end("a/m/decode", Outcome("valid"), "valid")
        journal.replace(Cell("a/m/decode", "a", "m", ASKED, "changed"))
        fresh = known(tmp_path)["a/m/decode"]
        assert (fresh.state, fresh.attempts, fresh.cell.digest, fresh.outcome) == ("pending", 0, "changed", None)
        assert [past.run_id for past in journal.attempts("a/m/decode")] == ["r1"]
        journal.again(["a/m/decode"])
    assert len(known(tmp_path)) == 2


def test_one_process_at_a_time(tmp_path: Path) -> None:
    create(tmp_path, CELLS)
    with Journal(tmp_path), pytest.raises(UsageError, match="another process works on the sweep"):
        Journal(tmp_path)
    with Journal(tmp_path):
        pass


def test_a_sweep_is_not_begun_twice(tmp_path: Path) -> None:
    create(tmp_path, CELLS)
    with pytest.raises(UsageError, match="there is a sweep in"):
        create(tmp_path, CELLS[:1])
    create(tmp_path / "of tonight", CELLS)
    with pytest.raises(UsageError) as told:
        create(tmp_path / "of tonight", CELLS)
    assert f"--dir '{tmp_path}/of tonight'`" in told.value.remedy
    assert len(known(tmp_path)) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [NAME, "of tonight"]


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to be read as one" * 50])
def test_a_damaged_journal_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(StorageError, match=r"the journal .* cannot be used"):
        Journal(tmp_path)
    with pytest.raises(UsageError, match="there is no sweep"):
        Journal(tmp_path / "elsewhere")


def test_a_journal_of_another_form_is_told(tmp_path: Path) -> None:
    create(tmp_path, CELLS)
    for content in ('{"hots": "a"}', "[]", "nothing"):
        with closing(sqlite3.connect(tmp_path / NAME)) as base:
            base.execute("update cell set request = ?", (content,))
            base.commit()
        with pytest.raises(StorageError, match=r"the journal .* cannot be used"):
            known(tmp_path)


ERROR = {**sweeps.ERROR, "kinds": ["unreachable"]}
VALID = {"state": "valid", "left": False, "error": None, "directory": "d", "versions": {}}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("state", "lost"),
        ("due", "soon"),
        ("due", float("inf")),
        ("digest", b"\xff"),
        ("request", '{"host": "a", "model": 7, "phase": null, "out": null}'),
        ("outcome", '{"state": "valid"}'),
        ("outcome", json.dumps({**VALID, "state": "failed", "error": {**ERROR, "entry": None}})),
        ("outcome", json.dumps({**VALID, "summary": {"profiles": [{**sweeps.profile(), "times": 5}]}})),
        ("outcome", json.dumps({**VALID, "summary": {"profiles": [{}]}})),
        ("outcome", json.dumps({**VALID, "summary": None, "of_tomorrow": 1})),
    ],
)
def test_whatever_stands_in_it_is_reported_or_told(tmp_path: Path, column: str, value: object) -> None:
    create(tmp_path, CELLS)
    with closing(sqlite3.connect(tmp_path / NAME)) as base:
        base.execute(f"update cell set {column} = ?", (value,))  # noqa: S608
        base.commit()
    with pytest.raises(StorageError, match=r"the journal .* cannot be used: "):
        whole.status(tmp_path)


def test_a_directory_that_is_none_or_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in ("file", "file/below"):
        with pytest.raises(StorageError, match=r"cannot write to .*file") as told:
            create(tmp_path / place, CELLS)
        assert "--dir" in told.value.remedy
    create(tmp_path / "s", CELLS)
    (tmp_path / "s" / "lock").mkdir()
    with pytest.raises(StorageError, match=r"cannot write to .*s: Is a directory"):
        Journal(tmp_path / "s")


def test_links_are_not_followed_out_of_the_directory(tmp_path: Path) -> None:
    create(tmp_path / "s", CELLS)
    for name in ("lock", "sweep.json.part"):
        (tmp_path / "s" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError):
        Journal(tmp_path / "s")
    write(tmp_path / "s" / "sweep.json", "{}")
    assert (tmp_path / "s" / "sweep.json").read_text() == "{}"
    assert not (tmp_path / "elsewhere").exists()


def test_who_reads_takes_back_what_a_killed_writer_has_left_half_done(tmp_path: Path) -> None:
    create(tmp_path / "live", CELLS)
    (tmp_path / "dead").mkdir()
    with closing(sqlite3.connect(tmp_path / "live" / NAME, isolation_level=None)) as base:
        base.execute("pragma cache_size = 1")  # so that a change reaches the file before it is complete
        base.execute("begin")
        base.execute("update cell set state = 'valid'")
        base.executemany(
            "insert into attempt (cell, number, run_id, began) values (1, ?, ?, 0)", [(n, "x" * 900) for n in range(99)]
        )
        for path in (tmp_path / "live").iterdir():
            shutil.copy(path, tmp_path / "dead")
    assert (tmp_path / "dead" / f"{NAME}-journal").stat().st_size
    assert {one.state for one in known(tmp_path / "dead").values()} == {"pending"}


def test_a_change_costs_no_more_in_a_large_sweep(tmp_path: Path) -> None:
    def instructions(cells: int) -> int:
        directory = tmp_path / str(cells)
        create(directory, [Cell(f"h{n}/m/decode", f"h{n}", "m", ASKED, "d") for n in range(cells)])
        count = 0

        def step() -> None:
            nonlocal count
            count += 1

        with Journal(directory) as journal:
            journal._base.set_progress_handler(step, 1)
            journal.begin("h7/m/decode", "r")
            journal.end("h7/m/decode", Outcome("valid"), "valid")
            journal.again(["h7/m/decode"])
            journal.replace(Cell("h7/m/decode", "h7", "m", ASKED, "changed"))
        return count

    assert instructions(1000) < 2 * instructions(10)


KILLED = """
import sys
import sweeps
from pathlib import Path
from collect_remote.sweeps.cells import Outcome
from collect_remote.sweeps.journal import Journal
with Journal(Path(sys.argv[1])) as journal:
    while True:
        journal.begin("a/m/decode", "r")
        print("begun", flush=True)
        journal.end("a/m/decode", Outcome("failed", {**sweeps.ERROR, "kinds": [], "message": "x" * 5000}), "pending")
        print("ended", flush=True)
"""


def test_killed_at_any_moment_it_knows_what_it_was_told(tmp_path: Path) -> None:
    create(tmp_path, CELLS)
    for number in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(3 + 7 * number)]
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().splitlines(keepends=True)
        process.wait()
        process.stdout.close()
        begun = len([line for line in said + rest if line == "begun\n"])
        before = known(tmp_path)["a/m/decode"]
        with Journal(tmp_path) as journal:
            attempts = journal.attempts("a/m/decode")
            mine = attempts[-begun:] if begun else []
            assert len(mine) == begun
            assert all(one.ended for one in attempts[:-1])
            if before.state == "running":
                journal.end("a/m/decode", Outcome("lost"), "pending")
