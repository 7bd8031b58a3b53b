"""Progress lines and bars, error lines, and the texts of results."""

from __future__ import annotations

import io
from typing import Any

import pytest

from collect_remote import errors, render
from collect_remote.cli import main
from collect_remote.progress import Bars, Plain, reporter

EVENTS: list[dict[str, Any]] = [
    {"stage": "connect"},
    {"stage": "warmup", "window": "both", "kind": "decode", "step": 1, "of": 2, "seconds": 0.5},
    {"stage": "warmup", "window": "both", "kind": "decode", "step": 2, "of": 2, "seconds": 0.25},
    {"stage": "pull", "bytes": 0, "of": 4_000_000},
    {"stage": "pull", "bytes": 4_000_000, "of": 4_000_000},
    {"stage": "pull", "bytes": 4_000_000, "of": 4_000_000},
    {"stage": "publish"},
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(report: Plain | Bars) -> str:
    for second, event in enumerate(EVENTS):
        report({**event, "time": 100.0 + second})
    report.close()
    return report._out.getvalue()  # type: ignore[no-any-return, attr-defined]


def test_plain_lines_where_there_is_no_terminal() -> None:
    assert shown(Plain(io.StringIO())).splitlines() == [
        "    0.0 s  connecting",
        "    1.0 s  warming up: decode step 1 of 2, 500.0 ms",
        "    2.0 s  warming up: decode step 2 of 2, 250.0 ms",
        "    3.0 s  pulling",
        "    4.0 s  pulling: 4.0 MB",
        "    6.0 s  publishing",
    ]


def test_bars_for_what_can_be_counted() -> None:
    text = shown(Bars(Terminal()))
    assert "warming up decode: 100%" in text
    assert "2/2" in text
    assert "3.81M/3.81M" in text
    assert "connecting" in text


def test_the_stream_decides() -> None:
    for stream, what in ((Terminal(), "100%"), (io.StringIO(), "500.0 ms")):
        report = reporter(stream)
        for event in EVENTS:
            report({**event, "time": 100.0})
        report.close()
        assert what in stream.getvalue()


def test_a_reader_that_goes_away_does_not_end_the_run() -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    report = reporter(Gone())
    for event in EVENTS:
        report({**event, "time": 100.0})
    report.close()


def test_every_error_has_its_documented_exit_code() -> None:
    codes = {
        errors.UsageError: 2,
        errors.InventoryError: 2,
        errors.UnreachableError: 3,
        errors.AuthError: 3,
        errors.HostKeyError: 3,
        errors.NoFreeDevice: 4,
        errors.EnvironmentUnfit: 5,
        errors.RunFailed: 6,
        errors.ProfileInvalid: 7,
        errors.TransferError: 8,
        errors.StorageError: 8,
        errors.Interrupted: 130,
    }
    assert {cls: cls("m").exit_code for cls in codes} == codes


def test_what_the_agent_reports_becomes_one_of_ours() -> None:
    told = {"kind": "NoFreeDevice", "message": "m", "remedy": "r"}
    error = errors.from_agent(told, stage="lease", host="h")
    assert isinstance(error, errors.NoFreeDevice)
    assert error.to_json() == {**told, "stage": "lease", "host": "h"}
    assert isinstance(errors.from_agent({**told, "kind": "Newer"}), errors.RunFailed)
    assert isinstance(errors.from_agent({**told, "kind": "UsageError"}), errors.UsageError)
    unfit = errors.from_agent({**told, "kind": "NpuSmiDriverError"})
    assert (unfit.exit_code, unfit.to_json()["kind"]) == (5, "NpuSmiDriverError")


def test_remedies_are_shown_for_what_did_not_pass() -> None:
    def check(verdict: str) -> dict[str, str]:
        return {"id": "steps", "verdict": verdict, "message": "m " + verdict, "remedy": "do " + verdict}

    text = render.verdict_text(
        {
            "verdict": "invalid",
            "path": "p",
            "checks": [check("pass")],
            "profiles": [{"phase": "decode", "rank": 0, "directory": "d", "checks": [check("fail"), check("warn")]}],
        }
    )
    assert "do fail" in text
    assert "do warn" in text
    assert "do pass" not in text


def test_a_bug_is_told_in_one_line_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("collect_remote.standalone.script", lambda phase: 1 / 0)
    assert main(["template", "--json"]) == 1
    said = capsys.readouterr()
    assert "error: internal error: ZeroDivisionError" in said.err
    assert '"kind": "CollectError"' in said.out


@pytest.mark.parametrize("arguments", [["--debug", "--host", "x"], ["--debug"]])
def test_debug_shows_the_traceback(arguments: list[str]) -> None:
    with pytest.raises(errors.UsageError):
        main(arguments)
