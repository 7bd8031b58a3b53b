"""Progress lines and bars, error lines, and the texts of results."""

from __future__ import annotations

import argparse
import dataclasses
import io
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from collect_remote import checks, errors
from collect_remote.checks import software
from collect_remote.checks.doctor import Report, examine
from collect_remote.cli import doctor_report, render
from collect_remote.cli.main import main
from collect_remote.cli.progress import Bars, Plain, reporter
from collect_remote.cli.say import show
from collect_remote.collection.wire import Listed
from collect_remote.npus.fleet import Fleet, worst
from collect_remote.npus.judged import Wish

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


def test_lines_of_several_hosts_stand_beside_each_other() -> None:
    report = Plain(io.StringIO())
    for second, event in enumerate(event for event in EVENTS[:4] for _ in range(2)):
        report({**event, "node": f"ascend0{second % 2 + 1}", "time": 100.0 + second})
    report({"stage": "publish", "time": 110.0})
    assert report._out.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "    0.0 s  ascend01: connecting",
        "    1.0 s  ascend02: connecting",
        "    2.0 s  ascend01: warming up: decode step 1 of 2, 500.0 ms",
        "    3.0 s  ascend02: warming up: decode step 1 of 2, 500.0 ms",
        "    4.0 s  ascend01: warming up: decode step 2 of 2, 250.0 ms",
        "    5.0 s  ascend02: warming up: decode step 2 of 2, 250.0 ms",
        "    6.0 s  ascend01: pulling",
        "    7.0 s  ascend02: pulling",
        "   10.0 s  publishing",
    ]


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
    assert error.to_json() == {**told, "entry": "no-free-device", "stage": "lease", "host": "h"}
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
    monkeypatch.setattr("collect_remote.cli.standalone.script", lambda phase: 1 / 0)
    assert main(["template", "--json"]) == 1
    said = capsys.readouterr()
    assert "error: internal error: ZeroDivisionError" in said.err
    assert '"kind": "CollectError"' in said.out


def command(redirection: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """collect-remote as a shell starts it with this redirection."""
    line = shlex.join([sys.executable, "-m", "collect_remote", *arguments])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    return subprocess.run(
        ["sh", "-c", f"{line} {redirection}"], capture_output=True, text=True, check=False, env=environment, timeout=60
    )


@pytest.mark.parametrize(
    ("redirection", "message"),
    [(">&-", "stdout is closed"), (">/dev/full", "cannot write the result to stdout: No space left on device")],
)
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_stdout_that_takes_nothing(redirection: str, message: str, as_json: list[str]) -> None:
    done = command(redirection, "template", *as_json)
    assert done.returncode == 8
    said, remedy, entry = done.stderr.splitlines()
    assert message in said
    assert "try: see where its stdout goes" in remedy
    assert entry == "  see: docs/troubleshooting.md#storage"


def test_a_stdout_that_lacks_a_letter_gets_its_number(tmp_path: Path) -> None:
    hosts = tmp_path / "inventory.yaml"
    hosts.write_text("all: {vars: {models: {m: {adapter: transformers, path: /data/模型}}}, hosts: {h: }}", "utf-8")
    done = command("", "-i", str(hosts), "inventory", "h", "--model", "m", PYTHONIOENCODING="ascii")
    assert (done.returncode, "/data/\\u6a21\\u578b" in done.stdout) == (0, True), done.stderr


def test_a_closed_stderr_is_no_reason_to_fail() -> None:
    done = command("2>&-", "template")
    assert (done.returncode, "def profile(" in done.stdout) == (0, True)
    assert command("2>&-", "devices").returncode == 2


def test_what_was_done_is_told_where_the_result_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    full = open("/dev/full", "w")  # noqa: SIM115 - closing it complains as writing does
    monkeypatch.setattr("sys.stdout", full)
    with pytest.raises(errors.StorageError) as raised:
        show(argparse.Namespace(json=True), {}, "", "run 4711 is going on")
    assert raised.value.remedy.endswith("; run 4711 is going on")
    full.close()  # what it did not take is lost


def test_a_long_name_moves_only_its_own_line() -> None:
    run = Listed("r" * 200, "failed", "h", "m", "load", "no such layer", 5, None, 7, 0, None, None)
    heading, long, short = render.runs_text([run, dataclasses.replace(run, run="r1")]).splitlines()
    assert len(heading) < 100
    assert len(short) < 120
    assert run.run in long, "nothing is cut: it is what attach and stop take"


def test_a_long_line_of_the_doctor_ends() -> None:
    check = checks.failed(software.MSPROF, errors.EnvironmentUnfit("PATH is " + "/x:" * 5000 + "\x1b[2J", "\x1br"))
    lines = doctor_report.text([Report("h", (check,))]).splitlines()
    assert max(map(len, lines)) < 1100
    assert all(line.isprintable() for line in lines)


class Odd:
    """A host that is wrong in a way that nobody has thought of."""

    name = "odd"

    def __getattr__(self, name: str) -> object:
        raise ZeroDivisionError(name)


def test_what_nobody_has_thought_of_is_the_one_hosts_error() -> None:
    report = examine(Odd())  # type: ignore[arg-type]
    (check,) = report.checks
    assert (check.verdict, report.exit_code) == ("failure", 1)
    assert "internal error: ZeroDivisionError" in check.message
    assert "test_what_is_shown.py:" in check.message
    remote = SimpleNamespace(host=Odd(), is_open=True, close=lambda: None)
    fleet = Fleet([], Wish())
    fleet._remotes = [remote]  # type: ignore[list-item]
    (answer,) = fleet.ask()
    assert answer.error is not None
    assert (answer.error.host, answer.error.kind, worst([answer])) == ("odd", "CollectError", 1)


@pytest.mark.parametrize("arguments", [["--debug", "--host", "x"], ["--debug"]])
def test_debug_shows_the_traceback(arguments: list[str]) -> None:
    with pytest.raises(errors.UsageError):
        main(arguments)
