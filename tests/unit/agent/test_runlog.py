"""The run's log: what is too much of it is given up, in place, while it grows and in the end."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from collect_agent.run import runlog
from collect_agent.run.rundir import RunDir

KIB = 1 << 10


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    for name, size in {"FIRST_BYTES": 64, "LAST_BYTES": 128, "SLACK_BYTES": 64, "LINE_BYTES": 4, "BLOCK": 16}.items():
        monkeypatch.setattr(runlog, name, size * KIB)
    return RunDir(str(tmp_path))


def lines(size: int) -> bytes:
    """Numbered lines, all of them together that many bytes."""
    return b"".join(b"%015d\n" % number for number in range(size // 16))


def test_a_log_of_usual_length_is_what_it_was(run: RunDir) -> None:
    Path(run.log).write_bytes(lines(256 * KIB))
    runlog.cut(run)
    assert Path(run.log).read_bytes() == lines(256 * KIB)


def test_the_middle_of_a_long_one_is_left_out_between_lines(run: RunDir) -> None:
    printed = lines(1024 * KIB)
    Path(run.log).write_bytes(printed)
    inode = os.stat(run.log).st_ino
    runlog.cut(run)
    log = Path(run.log).read_bytes()
    (note,) = re.findall(rb"\n--- .* ---\n", log)
    first, last = log.split(note)
    left_out = int(re.findall(rb"\d+", note)[0])
    assert first and last
    assert (printed.startswith(first), printed.endswith(last)) == (True, True)
    assert (first[-1:], re.match(rb"\d{15}\n", last) is not None) == (b"\n", True)
    assert len(first) + left_out + len(last) == len(printed)
    assert len(log) <= 192 * KIB + len(note)
    assert os.stat(run.log).st_ino == inode
    runlog.cut(run)
    assert Path(run.log).read_bytes() == log


def test_one_endless_line_is_cut_as_well(run: RunDir) -> None:
    Path(run.log).write_bytes(b"x" * (1024 * KIB))
    runlog.cut(run)
    log = Path(run.log).read_bytes()
    assert log.count(b"x") == 192 * KIB
    assert b"\n--- 851968 bytes are left out here" in log


def test_the_middle_takes_no_room_while_it_grows(run: RunDir) -> None:
    """And what is left out in the end has been given up before: no byte of the rest is a zero."""
    with open(run.log, "ab", buffering=0) as log:
        relief = runlog.Relief(log.fileno())
        for _ in range(64):
            log.write(lines(64 * KIB))
            relief()
            if os.fstat(log.fileno()).st_blocks * 512 > (64 + 128 + 64 + 64) * KIB:
                pytest.skip("no holes in the files of this file system")
        assert os.fstat(log.fileno()).st_size == 4096 * KIB
    runlog.cut(run)
    assert b"\0" not in Path(run.log).read_bytes()


def test_a_long_log_that_was_removed_is_cut_before_it_is_copied(run: RunDir) -> None:
    before = os.dup(1), os.dup(2)
    descriptor = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, lines(1024 * KIB))
        os.unlink(run.log)
        for target in (1, 2):
            os.dup2(descriptor, target)
        runlog.restore(run)
        os.write(1, b"after\n")
    finally:
        os.dup2(before[0], 1)
        os.dup2(before[1], 2)
    log = Path(run.log).read_bytes()
    assert log.endswith(b"\nafter\n")
    assert b" bytes are left out here" in log
    assert len(log) < 193 * KIB
