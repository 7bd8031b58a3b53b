"""What is seen of a sweep: never more than the terminal has, plain lines elsewhere, and nobody has to read it."""

from __future__ import annotations

import dataclasses
import fcntl
import io
import os
import pty
import re
import select
import struct
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sweeps
from collect_remote import Request, collect, load_inventory
from collect_remote.sweeps.board import Board, render, sentence, span
from collect_remote.sweeps.cells import Outcome, Progress
from collect_remote.sweeps.live import REDRAWN_S, Live, Plain, view
from harness import Tool
from simhost import SimHost

START = 1000.0


def board(count: int, begun: int = 0) -> tuple[Board, list[Progress]]:
    cells = [sweeps.pending(f"ascend{n:03}") for n in range(count)]
    made = Board(cells)
    for n, progress in enumerate(cells[:begun]):
        made.began(progress, START + n)
    return made, cells


def test_a_line_for_every_running_cell_and_the_totals() -> None:
    made, cells = board(5, begun=2)
    made.event(cells[0].cell.key, {"stage": "warmup", "kind": "decode", "step": 3, "of": 10, "seconds": 0.1}, 1004.0)
    made.event(cells[1].cell.key, {"stage": "pull", "bytes": 1_000_000, "of": 45_600_000}, 1004.0)
    made.event(cells[1].cell.key, {"stage": "pull", "bytes": 12_300_000, "of": 45_600_000}, 1006.0)
    made.ended(sweeps.failed(cells[4]), None)
    assert render(made, 80, 24, 1012.0) == [
        "ascend000  llama  decode      8 s  warming up: decode step 3 of 10",
        "ascend001  llama  decode      8 s  pulling: 12.3 of 45.6 MB",
        "0 valid, 1 failed, 2 running, 2 waiting; ? left",
    ]


def test_what_tells_a_cell_from_others_is_shown() -> None:
    progress = sweeps.pending(steps=20)
    made = Board([progress])
    made.began(progress, START)
    assert render(made, 80, 24, START)[0].startswith("ascend01  llama  decode steps=20  ")


def test_the_time_in_a_stage_begins_with_it() -> None:
    made, cells = board(1, begun=1)
    assert "beginning" in render(made, 80, 24, START)[0]
    for second, stage in enumerate(["connect", "survey", "survey"], 1):
        made.event(cells[0].cell.key, {"stage": stage}, START + second)
    assert "   7 s  looking at the host" in render(made, 80, 24, START + 9)[0]
    made.event(cells[0].cell.key, {"stage": "not\x1b[2Jknown"}, START + 9)
    assert "not [2Jknown" in render(made, 80, 24, START + 9)[0]


def test_events_of_what_has_ended_are_passed_over() -> None:
    made, cells = board(2, begun=1)
    made.ended(sweeps.valid(cells[0]), None)
    for progress in cells:
        made.event(progress.cell.key, {"stage": "pull"}, START)
    assert render(made, 80, 24, START) == ["1 valid, 0 failed, 0 running, 1 waiting; 12 s left"]


@given(st.integers(0, 40), st.integers(0, 60), st.integers(0, 200))
@settings(max_examples=100, deadline=None)
def test_it_never_takes_more_than_the_terminal_has(running: int, lines: int, columns: int) -> None:
    made, _ = board(running + 3, begun=running)
    text = render(made, columns, lines, START)
    assert len(text) <= lines
    assert all(len(line) < max(1, columns) for line in text)
    if columns > 120 and lines:
        assert f" {running} running, 3 waiting" in text[-1]
        shown = sum("beginning" in line for line in text)
        more = [int(line.split()[1]) for line in text if line.startswith("and ")]
        assert shown + sum(more) == running or lines <= 2


def test_the_oldest_are_shown_and_the_rest_is_counted() -> None:
    made, _ = board(100, begun=50)
    text = render(made, 80, 6, START + 60)
    assert [line.split()[0] for line in text[:4]] == ["ascend000", "ascend001", "ascend002", "ascend003"]
    assert text[4] == "and 46 more"


def test_time_left_is_unknown_before_the_first_is_valid() -> None:
    made, cells = board(9, begun=2)
    assert made.totals(START).endswith("; ? left")
    made.ended(sweeps.failed(cells[8], seconds=1), None)
    assert made.totals(START).endswith("; ? left"), "a refusal says nothing of what others take"
    made.ended(sweeps.valid(cells[0], seconds=100), None)
    # One has 99 s to go, six wait for 100 s each, two at once.
    assert made.seconds_left(START + 2) == pytest.approx((99 + 600) / 2)
    made.ended(sweeps.valid(cells[1], seconds=40), None)
    assert made.seconds_left(START + 2) == pytest.approx(6 * 70 / 2)


def test_time_left_is_at_least_what_the_last_one_takes() -> None:
    made, cells = board(10, begun=10)
    for progress in cells[:9]:
        made.ended(sweeps.valid(progress, seconds=100), None)
    assert made.seconds_left(START + 9) == pytest.approx(100)
    assert made.seconds_left(START + 1000) == 0
    made.began(sweeps.pending("late"), START + 1000)
    assert made.seconds_left(START + 1000) == pytest.approx(100), "two are running, and one of them is due"


def test_a_sweep_that_is_resumed_knows_what_there_is() -> None:
    done = [sweeps.valid(sweeps.pending("a")), sweeps.failed(sweeps.pending("b")), sweeps.running(sweeps.pending("c"))]
    totals = Board([*done, sweeps.pending("d")]).totals(START)
    assert totals == "1 valid, 1 failed, 0 running, 2 waiting; 24 s left"


def test_what_is_tried_again_waits() -> None:
    made, cells = board(1, begun=1)
    made.ended(sweeps.failed(cells[0]), 8.0)
    assert made.totals(START).startswith("0 valid, 0 failed, 0 running, 1 waiting; ? left")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (8.4, "8 s"), (119, "119 s"), (125, "2 min"), (7199, "119 min"), (7500, "2 h 5 min")],
)
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_the_events_of_a_real_run(tool: Tool, host: Callable[..., SimHost], monkeypatch: pytest.MonkeyPatch) -> None:
    tool.inventory(host())
    monkeypatch.chdir(tool.directory)
    made, cells = board(1, begun=1)
    seen: list[str] = []

    def on_event(event: dict[str, Any]) -> None:
        made.event(cells[0].cell.key, event, event["time"])
        seen.append(made.running[cells[0].cell.key].words)

    request = Request(host="ascend01", model="llama", phase="decode", steps=5)
    collect(request, load_inventory(Path("inventory.yaml")).host("ascend01"), on_event)
    for words in (
        "looking at the host",
        "warming up: decode step 2 of 2",
        "profiling: decode step 5 of 5",
        "publishing",
    ):
        assert words in seen
    assert any(re.fullmatch(r"pulling: (\d+\.\d) of \1 MB", words) for words in seen)


def test_how_an_attempt_has_ended() -> None:
    progress = sweeps.pending()
    where = "profiles/ascend01/llama/20261130_010203_5f0c1e"
    assert sentence(sweeps.valid(progress), None) == f"ascend01/llama/decode: valid after 12 s: {where}"
    assert sentence(sweeps.failed(progress), 8.2) == (
        "ascend01/llama/decode: failed after 3 s: no answer from 10.0.0.7 port 22 within 10 s; again in 8 s"
    )
    assert sentence(sweeps.failed(progress, message="a\x1b[2J\nb"), None).endswith("failed after 3 s: a [2J b")
    left = dataclasses.replace(sweeps.running(progress), state="pending", outcome=Outcome("interrupted"))
    assert sentence(left, None) == "ascend01/llama/decode: interrupted"


def stripped(text: str) -> list[str]:
    lines = text.splitlines()
    assert all(re.match(r" +\d+\.\d s  ", line) for line in lines)
    return [line.split(" s  ", 1)[1] for line in lines]


def test_plain_lines_say_what_begins_and_what_ends() -> None:
    out = io.StringIO()
    cells = [sweeps.pending("a"), sweeps.pending("b")]
    shown = view(cells, out)
    assert isinstance(shown, Plain)
    first = sweeps.running(cells[0])
    shown.began(first)
    for step in range(10):
        shown.event(first.cell.key, {"stage": "warmup", "kind": "decode", "step": step, "of": 10})
    shown.ended(sweeps.failed(cells[0]), 8.0)
    second = sweeps.running(first)
    shown.began(second)
    shown.ended(sweeps.valid(cells[0]))
    shown.close()
    assert stripped(out.getvalue()) == [
        "a/llama/decode: begun",
        "a/llama/decode: failed after 3 s: no answer from 10.0.0.7 port 22 within 10 s; again in 8 s",
        "a/llama/decode: begun, attempt 2",
        "a/llama/decode: valid after 12 s: profiles/a/llama/20261130_010203_5f0c1e",
    ]


def test_plain_totals_come_every_minute() -> None:
    out = io.StringIO()
    shown = Plain([sweeps.pending()], out)
    now = time.time()
    for second in range(0, 150, 10):
        shown.tick(now + second)
    assert stripped(out.getvalue()) == ["0 valid, 0 failed, 0 running, 1 waiting; ? left"] * 2


class Gone(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal, self.asked = terminal, 0

    def isatty(self) -> bool:
        return self.terminal

    def write(self, _text: str) -> int:
        self.asked += 1
        raise BrokenPipeError


@pytest.mark.parametrize("terminal", [True, False])
def test_a_reader_that_goes_away_ends_nothing(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Gone(terminal)
    cells = [sweeps.pending()]
    shown = view(cells, out)
    assert isinstance(shown, Live) == terminal
    for _ in range(3):
        shown.began(sweeps.running(cells[0]))
        shown.ended(sweeps.failed(cells[0]))
        shown.tick(time.time() + 600)
    shown.close()
    assert out.asked == 1, "who is gone is not written to again"


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(view([], Gone(terminal=True)), Plain)


def test_threads_may_tell_at_once() -> None:
    out = io.StringIO()
    cells = [sweeps.pending(f"h{n}") for n in range(40)]
    shown = Plain(cells, out)

    def work(mine: list[Progress]) -> None:
        for progress in mine:
            shown.began(sweeps.running(progress))
            for step in range(20):
                shown.event(progress.cell.key, {"stage": "profile", "kind": "decode", "step": step, "of": 20})
            shown.ended(sweeps.valid(progress))

    threads = [threading.Thread(target=work, args=(cells[n::8],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = stripped(out.getvalue())
    assert len(lines) == 80
    assert len([line for line in lines if " valid after " in line]) == 40


class Screen:
    """As much of a terminal as is needed: lines, the cursor going up, and clearing to the end."""

    def __init__(self, columns: int) -> None:
        self.columns, self.lines, self.row = columns, [""], 0

    def feed(self, text: str) -> None:
        for part in re.findall(r"\x1b\[\d*[A-Z]|\r?\n|\r|[^\x1b\r\n]+", text):
            if part.endswith("A") and part.startswith("\x1b"):
                self.row -= int(part[2:-1])
                assert self.row >= 0, "above what is ours"
            elif part == "\x1b[J":
                self.lines[self.row :] = [""]
            elif part.endswith("\n"):
                self.row += 1
                self.lines[self.row :] = [*self.lines[self.row :], ""][:1]
            elif part != "\r":
                assert len(part) < self.columns, "it would wrap"
                self.lines[self.row] = part

    @property
    def text(self) -> list[str]:
        return [line for line in self.lines if line]


class Terminal:
    """A pseudo-terminal of some size, and what stands on it."""

    def __init__(self, columns: int, lines: int) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.out = os.fdopen(slave, "w", encoding="utf-8")
        self.screen = Screen(columns)

    def read(self) -> list[str]:
        while select.select([self.master], [], [], 0.05)[0]:
            self.screen.feed(os.read(self.master, 1 << 16).decode())
        return self.screen.text

    def close(self) -> None:
        self.out.close()
        os.close(self.master)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TERM", "xterm")
    made = Terminal(90, 8)
    yield made
    made.close()


def test_it_is_redrawn_in_place_on_a_terminal(terminal: Terminal) -> None:
    cells = [sweeps.pending(f"ascend{n:02}") for n in range(30)]
    shown = view(cells, terminal.out)
    assert isinstance(shown, Live)
    for progress in cells[:20]:
        shown.began(sweeps.running(progress))
    now = time.time()
    shown.tick(now + 1)
    text = terminal.read()
    assert len(text) == 7, "one line of eight is the cursor's"
    assert text[-2:] == ["and 15 more", "0 valid, 0 failed, 20 running, 10 waiting; ? left"]
    shown.event(cells[0].cell.key, {"stage": "profile", "kind": "decode", "step": 2, "of": 10})
    shown.ended(sweeps.failed(cells[1]))
    for progress in cells[2:20]:
        shown.ended(sweeps.valid(progress))
    shown.tick(now + 3)
    text = terminal.read()
    assert text[0] == "ascend01/llama/decode: failed after 3 s: no answer from 10.0.0.7 port 22 within 10 s"
    assert "profiling: decode step 2 of 10" in text[1]
    assert text[2].startswith("18 valid, 1 failed, 1 running, 10 waiting; ")
    assert len(text) == 3
    shown.close()
    assert terminal.read() == text[:1], "what failed stays, the board goes"
    shown.event(cells[0].cell.key, {"stage": "publish"})
    shown.tick(now + 9)
    assert terminal.read() == text[:1], "and who is late is not heard"


def test_it_is_redrawn_five_times_a_second_at_most(terminal: Terminal) -> None:
    cells = [sweeps.pending()]
    shown = Live(cells, terminal.out)
    written: list[str] = []
    shown._put = written.append  # type: ignore[method-assign]
    started = time.monotonic()
    shown.began(sweeps.running(cells[0]))
    for step in range(2000):
        shown.event(cells[0].cell.key, {"stage": "warmup", "kind": "decode", "step": step, "of": 2000})
    assert len(written) <= 1 + (time.monotonic() - started) / REDRAWN_S + 1


def test_a_narrower_terminal_is_cleared_of_what_wraps_now() -> None:
    out = io.StringIO()
    shown = Live([], out)
    shown._show(["x" * 70, "y" * 30], 80)
    shown._show([], 40)
    assert out.getvalue().endswith("\x1b[3A\r\x1b[J")
