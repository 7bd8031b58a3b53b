"""sweep.json, sweep.csv and the table: every cell is in them with what became of it, and the last line adds up."""

from __future__ import annotations

import csv
import dataclasses
import errno
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import results
import sweeps
from collect_remote import Profile
from collect_remote.errors import StorageError
from collect_remote.sweeps import report
from collect_remote.sweeps.cells import Progress
from collect_remote.sweeps.peers import Finding, rows, slower
from collect_remote.sweeps.summary import summarize
from collect_remote.sweeps.table import last_line, table

STARTED = 1_790_000_000.0


def fleet() -> list[Progress]:
    """Ten hosts, one of them slower; one of two windows and ranks; two that failed; one is left, one goes on."""
    separate = [
        sweeps.profile("prefill", kind="prefill", step_ms=80.0),
        sweeps.profile("decode", rank=0),
        sweeps.profile("decode", rank=1, factor=1.5),
    ]
    return [
        *(
            sweeps.valid(sweeps.pending(f"ascend{n:02}"), [sweeps.profile(factor=1.4 if n == 4 else 1.0)])
            for n in range(1, 11)
        ),
        sweeps.valid(sweeps.pending("ascend11", phase="separate"), separate),
        sweeps.failed(sweeps.pending("dead")),
        sweeps.failed(sweeps.pending("sick"), kind="ProfileInvalid", entry="profile-invalid", message="no steps"),
        sweeps.failed(sweeps.pending("again"), state="pending"),
        sweeps.running(sweeps.pending("busy")),
        sweeps.pending("later"),
    ]


def findings(cells: list[Progress]) -> list[Finding]:
    return slower(rows(cells))


def document(cells: list[Progress]) -> dict[str, Any]:
    made = report.document(cells, findings(cells), Path("sweeps/night"), STARTED)
    assert json.loads(json.dumps(made, allow_nan=False)) == made, "plain data"
    sweeps.check(made)
    return made


def lines_of_csv(cells: list[Progress]) -> list[dict[str, str]]:
    text = report.csv_text(cells, findings(cells))
    assert text.splitlines()[0] == ",".join(report.COLUMNS)
    return list(csv.DictReader(io.StringIO(text)))


def test_the_document_has_every_cell_and_its_state() -> None:
    made = document(fleet())
    assert made["counts"] == {"cells": 16, "valid": 11, "failed": 2, "running": 1, "pending": 2}
    assert (made["ok"], made["exit_code"]) == (False, 9)
    assert (made["format"], made["directory"], made["started"]) == ("collect-remote sweep 1", "sweeps/night", STARTED)
    by_host = {cell["host"]: cell for cell in made["cells"]}
    good, dead, sick, later = (by_host[host] for host in ("ascend01", "dead", "sick", "later"))
    assert (good["state"], good["verdict"], good["seconds"], good["attempts"]) == ("valid", "valid", 12.0, 1)
    assert good["directory"] == "profiles/ascend01/llama/20261130_010203_5f0c1e"
    assert good["error"] is None
    assert good["versions"] == sweeps.VERSIONS
    assert good["summary"]["profiles"][0]["kernels"]["top"][0]["name"] == "MatMulV2"
    assert (dead["state"], dead["verdict"], dead["summary"]) == ("failed", None, None)
    assert dead["error"]["entry"] == "unreachable"
    assert dead["error"]["kinds"] == ["unreachable", "connection"]
    assert sick["verdict"] == "invalid"
    assert (later["state"], later["attempts"], later["seconds"], later["error"]) == ("pending", 0, None, None)
    assert by_host["again"]["error"]["kind"] == "UnreachableError", "why it is to be tried again"
    (slow,) = made["slower"]
    assert (slow["host"], slow["what"]) == ("ascend04", "most figures")
    assert {one["key"] for one in slow["evidence"]} == {"ascend04/llama/decode"}


def test_an_attempt_that_goes_on_has_not_taken_any_time_yet() -> None:
    again = dataclasses.replace(sweeps.running(sweeps.failed(sweeps.pending())), ended=900.0)
    (cell,) = document([again])["cells"]
    assert (cell["attempts"], cell["began"], cell["seconds"]) == (2, 1000.0, None)
    assert cell["error"]["entry"] == "unreachable", "of the attempt before"


def test_all_valid_is_ok() -> None:
    made = document(fleet()[:11])
    assert (made["ok"], made["exit_code"]) == (True, 0)


def test_a_summary_of_a_real_result_is_as_described(tmp_path: Path) -> None:
    for n, changes in enumerate([{}, {"export": ("db",)}, {"level": "Level0"}, {"ranks": 2, "phase": "separate"}]):
        directory = results.publish(tmp_path, run=f"20261129_104205_00000{n}", **changes)
        summary = summarize(Profile.at(directory))
        cell = sweeps.valid(sweeps.pending(), summary["profiles"])
        document([cell])
        assert len(lines_of_csv([cell])) == len(summary["profiles"])
        assert "ascend01" in table([cell], [])


def test_a_line_of_the_csv_for_every_profile_and_for_every_cell_without() -> None:
    lines = lines_of_csv(fleet())
    assert len(lines) == 10 + 3 + 5
    slow = next(line for line in lines if line["host"] == "ascend04")
    assert (slow["window"], slow["rank"], slow["chip"], slow["device_name"]) == ("decode", "0", "910B", "910B3")
    assert (slow["decode_steps"], slow["decode_step_median_ms"], slow["forward_steps"]) == ("10", "14.0", "")
    assert (slow["computing_pct"], slow["communication_pct"], slow["free_pct"]) == ("75.0", "5.0", "20.0")
    assert (slow["kernel_1_name"], slow["kernel_1_calls"]) == ("MatMulV2", "100")
    assert float(slow["kernel_1_mean_us"]) == pytest.approx(301 * 1.4)
    assert slow["torch_npu"] == "2.7.1"
    assert "4 of 4 figures" in slow["slower"]
    assert [line["host"] for line in lines if line["slower"]] == ["ascend04"]
    ranks = [(line["window"], line["rank"]) for line in lines if line["host"] == "ascend11"]
    assert ranks == [("prefill", "0"), ("decode", "0"), ("decode", "1")]
    dead = next(line for line in lines if line["host"] == "dead")
    assert dead["error_message"] == sweeps.ERROR["message"]
    assert (dead["error_kind"], dead["error_entry"], dead["window"]) == ("UnreachableError", "unreachable", "")


def test_no_spreadsheet_takes_what_a_host_says_for_a_formula() -> None:
    profile = sweeps.profile()
    profile["kernels"]["top"][0]["name"] = "=cmd|' /C calc'!A0"
    profile["device_name"] = "@SUM(A1)\x1b[2J"
    (line,) = lines_of_csv([sweeps.valid(sweeps.pending(), [profile])])
    assert line["kernel_1_name"] == "'=cmd|' /C calc'!A0"
    assert line["device_name"] == "'@SUM(A1) [2J"
    assert line["decode_step_median_ms"] == "10.0"
    (line,) = lines_of_csv([sweeps.failed(sweeps.pending(), message="-1+1")])
    assert line["error_message"] == "'-1+1"


def test_the_table_says_all_of_it() -> None:
    cells = fleet()
    text = table(cells, findings(cells), 120)
    lines = text.splitlines()
    assert re.split(r"  +", lines[0]) == [
        *("HOST", "MODEL", "PHASE", "STATE", "STEP (ms)", "COMP %", "COMM %", "FREE %", "SLOWER", "TOP KERNELS")
    ]
    row = {line.split()[0]: line.split() for line in lines[1:18]}
    assert row["ascend01"][:8] == ["ascend01", "llama", "decode", "valid", "10.00", "75.0", "5.0", "20.0"]
    assert row["ascend04"][8:10] == ["1.40", "x"]
    assert row["dead"] == ["dead", "llama", "decode", "failed", "-", "-", "-", "-"]
    assert row["later"][3:5] == ["not", "run"]
    two = [line for line in lines if line.startswith("ascend11")]
    assert "separate: prefill" in two[0]
    assert "80.00" in two[0]
    assert "15.00" in two[1], "the slower of two ranks"
    assert "MatMulV2 81 %" in text
    assert "slower than their peers: 1 host\n  ascend04: 4 of 4 figures, 1.40 x" in text
    assert lines[-1] == "FAILED 5 of 16 cells: 2 failed, 3 not run to their end"


def test_failures_are_grouped_by_cause_with_every_host() -> None:
    cells = [
        *(sweeps.failed(sweeps.pending(f"far{n}", model)) for n in range(3) for model in ("llama", "qwen")),
        *(sweeps.failed(sweeps.pending(f"odd{n}"), message=f"no answer from 10.0.0.{n}") for n in range(9)),
        sweeps.failed(
            sweeps.pending("full"), kind="StorageError", entry="storage", message="disk full", remedy="clean"
        ),
        sweeps.pending("later"),
    ]
    text = table(cells, [], 100)
    assert text.count("UnreachableError: 15 cells on 12 hosts\n") == 1
    assert f"{sweeps.ERROR['message']} (far0, far1, far2)" in text
    assert {f"odd{n}" for n in range(9)} <= set(re.findall(r"odd\d", text.partition("UnreachableError")[2]))
    assert text.count("try: check that the host is up\n") == 1
    assert "see: docs/troubleshooting.md#unreachable\n" in text
    assert "StorageError: 1 cell on 1 host\n  disk full (full)\n    try: clean\n" in text
    assert "see: docs/troubleshooting.md#storage\n" in text
    assert text.index("UnreachableError:") < text.index("StorageError:")
    assert "not run to their end: 1 cell\n  later/llama/decode\n" in text


def test_hundreds_that_were_not_run_are_counted() -> None:
    text = table([sweeps.pending(f"h{n}") for n in range(300)], [])
    assert "not run to their end: 300 cells" in text
    assert "and 280 more" in " ".join(text.split())
    assert text.endswith("FAILED 300 of 300 cells: 300 not run to their end\n")


@pytest.mark.parametrize(("columns", "shown"), [(20, 0), (80, 0), (100, 1), (120, 2), (200, 3), (400, 3)])
def test_names_are_cut_to_the_room_there_is(columns: int, shown: int) -> None:
    profile = sweeps.profile()
    for n, kernel in enumerate(profile["kernels"]["top"]):
        kernel["name"] = f"aclnn{n}_" + "FlashAttentionScore" * 4
    lines = table([sweeps.valid(sweeps.pending(), [profile])], [], columns).splitlines()
    assert lines[1].count("aclnn") == shown
    assert max(map(len, lines)) <= max(columns, 75)
    assert (".. " in lines[1]) == (shown > 0 and columns < 400)


def test_no_control_character_of_a_host_gets_through() -> None:
    cells = [sweeps.failed(sweeps.pending(), message="a\x1b[2J\nb", remedy="c\rd")]
    text = table(cells, [])
    assert text.replace("\n", "").isprintable()


def test_what_was_interrupted_has_not_failed() -> None:
    cells = [sweeps.failed(sweeps.pending(f"h{n}"), state="pending", exit_code=130) for n in range(2)]
    assert document(cells)["exit_code"] == 9


@given(st.lists(st.sampled_from(["valid", "failed", "running", "pending"]), max_size=30))
@settings(max_examples=60, deadline=None)
def test_the_last_line_the_document_and_the_exit_code_agree(states: list[str]) -> None:
    make = {"valid": sweeps.valid, "failed": sweeps.failed, "running": sweeps.running, "pending": lambda cell: cell}
    cells = [make[state](sweeps.pending(f"h{n}")) for n, state in enumerate(states)]
    made, line = document(cells), last_line(cells)
    good = states.count("valid")
    code = 0 if good == len(states) else 3 if states.count("failed") == len(states) else 9
    assert made["exit_code"] == code
    assert made["ok"] == (code == 0) == (good == len(states)) == (not line.startswith("FAILED"))
    assert line.startswith(
        f"{good} of {len(states)}" if made["ok"] else f"FAILED {len(states) - good} of {len(states)}"
    )
    assert table(cells, []).endswith(line + "\n")


def test_the_schema_is_one_and_describes_every_field() -> None:
    schema = json.loads(sweeps.SCHEMA.read_text())
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["format"]["const"] == report.FORMAT
    assert schema["$defs"]["state"]["enum"] == list(report.STATES)
    parts = [schema, *schema["$defs"].values(), schema["$defs"]["kernels"]["properties"]["others"]]
    named = [(name, part) for whole in parts for name, part in whole.get("properties", {}).items()]
    assert len(named) > 60
    told = [name for name, part in named if "description" not in part and "description" not in deref(schema, part)]
    assert told == []


def deref(schema: Any, part: Any) -> Any:
    return schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("ok",), "yes"),
        (("cells", 0, "state"), "done"),
        (("cells", 0, "summary", "profiles", 0, "rank"), -1),
        (("cells", 0, "more"), 1),
        (("slower", 0, "evidence"), []),
    ],
)
def test_what_is_not_as_described_does_not_pass(where: tuple[Any, ...], value: Any) -> None:
    made = document(fleet())
    holder: Any = made
    for name in where[:-1]:
        holder = holder[name]
    holder[where[-1]] = value
    with pytest.raises(AssertionError):
        sweeps.check(made)


def test_a_file_is_written_whole_and_over_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "sweep.json"
    report.write(path, "old")
    report.write(path, "new\n")
    assert path.read_bytes() == b"new\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("call", "what"), [("fsync", "No space left"), ("replace", "Permission denied")])
def test_what_cannot_be_written_leaves_the_old_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, what: str
) -> None:
    path = tmp_path / "sweep.json"
    report.write(path, "old")

    def refuse(*_: Any) -> None:
        number = errno.ENOSPC if call == "fsync" else errno.EACCES
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(*((os, "fsync") if call == "fsync" else (Path, "replace")), refuse)
    with pytest.raises(StorageError, match=what) as caught:
        report.write(path, "new")
    assert caught.value.exit_code == 8
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write to .*gone"):
        report.write(tmp_path / "gone" / "sweep.json", "text")
