"""Validation from end to end: healthy profiles of every family pass, in every form that someone may point at."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profiles
from collect_agent.output.archive import extract
from collect_agent.output.pack import pack, tree
from collect_agent.validate import validate, with_checks
from profiles import Profile

BESIDE = [above / "shared" / "cases" / "profiles" for above in Path(__file__).resolve().parents]  # of the checkout
SAMPLES = next(filter(Path.is_dir, BESIDE), BESIDE[0])


def verdicts(result: dict[str, Any]) -> dict[str, str]:
    """Verdict by check id, of the whole and of the first profile."""
    checks = result["checks"] + (result["profiles"][0]["checks"] if result["profiles"] else [])
    return {check["id"]: check["verdict"] for check in checks}


def not_good(result: dict[str, Any]) -> dict[str, str]:
    return {id_: verdict for id_, verdict in verdicts(result).items() if verdict not in ("pass", "na")}


@pytest.mark.parametrize(
    ("profile", "columns", "chip"),
    [
        (Profile(chip="910A", device_column=False, versions=("2.1.0", "8.0.RC1")), 36, "910A/310P"),
        (Profile(chip="910A"), 37, "910A/310P"),
        (Profile(device_column=False), 46, "910B/A2/A3"),
        (Profile(), 47, "910B/A2/A3"),
        (Profile(chip="950"), 49, "950"),
        (Profile(level="Level2"), 47, "910B/A2/A3"),
        (Profile(level="Level0"), 9, None),
        (Profile(level="Level0", device_column=False), 8, None),
        (Profile(metrics="MemoryUB"), 25, None),
        (Profile(steps=1), 47, "910B/A2/A3"),
        (Profile(rank=1, device=5, collectives=True), 47, "910B/A2/A3"),
        (Profile(skip_first=10, warmup=2), 47, "910B/A2/A3"),
        (Profile(export=("text", "db")), 47, "Ascend910B3"),
        (Profile(export=("db",)), None, "Ascend910B3"),
        (Profile(chip="910A", export=("text", "db")), 37, "Ascend910A"),
    ],
    ids=lambda value: "" if not isinstance(value, Profile) else f"{value.chip}-{value.level}-{'-'.join(value.export)}",
)
def test_healthy_profiles_are_valid(tmp_path: Path, profile: Profile, columns: int | None, chip: str | None) -> None:
    profiles.write(tmp_path / "decode", profile)
    result = validate(str(tmp_path), profiles.request(profile))
    assert not_good(result) == {}
    assert result["verdict"] == "valid"
    (found,) = result["profiles"]
    assert found["chip"] == chip
    assert found["phase"] == "decode"
    assert found["steps"] == list(range(profile.first_step, profile.first_step + profile.steps))
    assert columns is None or len(profiles.kernel_columns(profile)) == columns


@pytest.mark.parametrize(
    ("verdict", "whole"), [("pass", "valid"), ("warn", "valid"), ("unproven", "unproven"), ("fail", "invalid")]
)
def test_the_verdict_is_of_the_runs_own_checks_too(tmp_path: Path, verdict: str, whole: str) -> None:
    profiles.write(tmp_path / "decode")
    result = validate(str(tmp_path), profiles.request(Profile()))
    check = {"id": "device-shared", "verdict": verdict, "message": "", "remedy": ""}
    assert with_checks(result, [check]) == {**result, "verdict": whole, "checks": [*result["checks"], check]}


def test_without_a_record_of_the_warm_up_a_healthy_profile_is_unproven(tmp_path: Path) -> None:
    directory = profiles.write(tmp_path)
    result = validate(str(directory))
    assert result["verdict"] == "unproven"
    assert not_good(result) == {"warmup-outside": "unproven"}
    assert result["profiles"][0]["directory"] == "."


def test_every_figure_is_json_and_every_fault_has_a_remedy(tmp_path: Path) -> None:
    directory = profiles.write(tmp_path, steps=1)
    (directory / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_text("[")
    result = validate(str(directory), {"steps": {"decode": 3}})
    json.dumps(result, allow_nan=False)
    for check in result["checks"] + result["profiles"][0]["checks"]:
        assert set(check) >= {"id", "verdict", "message", "remedy"}
        assert bool(check["remedy"]) == (check["verdict"] in ("fail", "warn", "unproven"))


def test_a_bare_output_directory(tmp_path: Path) -> None:
    output = profiles.write(tmp_path) / "ASCEND_PROFILER_OUTPUT"
    assert not_good(validate(str(output))) == {"warmup-outside": "unproven"}  # its configuration lies above it
    for place in (tmp_path / "alone" / "ASCEND_PROFILER_OUTPUT", tmp_path / "renamed"):
        shutil.copytree(str(output), str(place))
        result = validate(str(place))
        assert not_good(result) == {"profiler-info": "unproven", "warmup-outside": "unproven"}
        assert verdicts(result)["op-statistic"] == "pass"


def write_archive(root: Path, target: Path, expected: dict[str, Any]) -> None:
    def manifest(files: list[dict[str, Any]]) -> dict[str, Any]:
        phases = expected["warmup"]
        return {"expected": {**expected, "warmup": None}, "phases": phases, "files": files}

    pack(tree(str(root), "profile_l1"), str(target), manifest=manifest)


def test_an_archive_proves_itself_by_its_manifest(tmp_path: Path) -> None:
    profile = Profile()
    directory = profiles.write(tmp_path / "tree" / "decode", profile)
    target = tmp_path / "profile_l1.tar.gz"
    write_archive(tmp_path / "tree", target, profiles.request(profile))
    result = validate(str(target))
    assert result["verdict"] == "valid"
    assert result["profiles"][0]["directory"] == f"profile_l1/decode/{directory.name}"
    assert validate(str(tmp_path), {}) == {**validate(str(target), {}), "path": str(tmp_path)}  # as it is published
    assert verdicts(result)["archive"] == verdicts(result)["warmup-outside"] == verdicts(result)["steps"] == "pass"
    # Other expectations than those of the manifest.
    assert not_good(validate(str(target), {"level": "Level2"})) == {
        "configuration": "fail",
        "warmup-outside": "unproven",
    }
    # A database is read out of an archive as well.
    profiles.write(tmp_path / "tree" / "prefill", export=("db",))
    write_archive(tmp_path / "tree", target, profiles.request(profile))
    assert validate(str(target), {})["profiles"][1]["chip"] == "Ascend910B3"


def test_unpacked_archives_are_judged_like_packed_ones(tmp_path: Path) -> None:
    profile = Profile()
    profiles.write(tmp_path / "tree" / "decode", profile)
    write_archive(tmp_path / "tree", tmp_path / "p.tar.gz", profiles.request(profile))
    out = tmp_path / "out"
    extract(str(tmp_path / "p.tar.gz"), str(out))
    for place in (out, out / "profile_l1"):
        result = validate(str(place))
        assert (result["verdict"], verdicts(result)["manifest"]) == ("valid", "pass")
    (table,) = out.rglob("api_statistic.csv")
    table.write_bytes(table.read_bytes() + b"host,acl,late,2.0,1,2.0,2.0,2.0,0\n")
    assert not_good(validate(str(out))) == {"manifest": "fail"}


def test_an_archive_of_another_tool_and_a_manifest_of_another_tool(tmp_path: Path) -> None:
    directory = profiles.write(tmp_path / "run")
    (tmp_path / "run" / "manifest.json").write_text('{"name": "web app"}')
    assert not_good(validate(str(tmp_path / "run"))) == {"warmup-outside": "unproven"}
    base = shutil.make_archive(str(tmp_path / "by-hand"), "gztar", str(tmp_path), f"run/{directory.name}")
    assert not_good(validate(base)) == {"warmup-outside": "unproven"}


def test_a_damaged_archive_is_invalid_and_says_where(tmp_path: Path) -> None:
    profiles.write(tmp_path / "tree" / "decode")
    target = tmp_path / "p.tar.gz"
    write_archive(tmp_path / "tree", target, profiles.request(Profile()))
    target.write_bytes(target.read_bytes()[:-9])
    result = validate(str(target))
    assert (result["verdict"], result["profiles"]) == ("invalid", [])
    assert "ends early" in result["checks"][0]["message"]


def test_what_is_not_there_cannot_be_judged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        validate(str(tmp_path / "none"))
    result = validate(str(tmp_path))
    assert result["verdict"] == "invalid"
    assert not_good(result) == {"profiles-found": "fail"}


def test_several_phases_and_ranks_are_told_apart(tmp_path: Path) -> None:
    decode, prefill = Profile(rank=0, collectives=True), Profile(rank=0, steps=1, collectives=True)
    for rank in (0, 1):
        profiles.write(tmp_path / "decode", decode, rank=rank, device=4 + rank)
        profiles.write(tmp_path / "prefill", prefill, rank=rank, device=4 + rank)
    asked = profiles.request(decode)
    asked["ranks"] = [0, 1]
    asked["steps"] = {"decode": 5, "prefill": 1}
    asked["warmup"]["prefill"] = {"warmup_seconds": [0.2], "step_seconds": [0.21], "recompiles": 0}
    result = validate(str(tmp_path), asked)
    assert result["verdict"] == "valid"
    found = [(profile["phase"], profile["rank"], len(profile["steps"])) for profile in result["profiles"]]
    assert found == [("decode", 0, 5), ("decode", 1, 5), ("prefill", 0, 1), ("prefill", 1, 1)]
    asked["ranks"] = [0]
    assert not_good(validate(str(tmp_path), asked)) == {"complete": "warn"}


def test_one_capture_without_steps_passes_until_steps_were_asked_for(tmp_path: Path) -> None:
    """start() and stop() around a server's request: one row without a step id, all sums still hold."""
    directory = profiles.write(tmp_path, scheduled=False)
    result = validate(str(directory), {"warmup": profiles.request(Profile())["warmup"]})
    assert not_good(result) == {}
    assert verdicts(result)["computing-union"] == "pass"
    assert result["profiles"][0]["steps"] == []
    assert not_good(validate(str(directory), {"steps": {"decode": 5}}))["steps"] == "unproven"


def test_without_cpu_activity_steps_cannot_be_told_apart(tmp_path: Path) -> None:
    result = validate(str(profiles.write(tmp_path, cpu=False)))
    assert not_good(result) == {"columns": "warn", "warmup-outside": "unproven"}
    (columns,) = [check for check in result["profiles"][0]["checks"] if check["id"] == "columns"]
    assert "steps cannot be told apart: CPU activity was off" in columns["message"]


def test_reading_changes_nothing(tmp_path: Path) -> None:
    """A viewer's checksum must still hold afterwards: no journal beside a database, no new time on a file."""
    directory = profiles.write(tmp_path, export=("text", "db"))
    before = {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")}
    for path in directory.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    validate(str(directory))
    assert {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")} == before


def test_links_are_not_followed(tmp_path: Path) -> None:
    directory = profiles.write(tmp_path / "run")
    output = directory / "ASCEND_PROFILER_OUTPUT"
    os.rename(str(output / "kernel_details.csv"), str(tmp_path / "elsewhere.csv"))
    (output / "kernel_details.csv").symlink_to(tmp_path / "elsewhere.csv")
    assert verdicts(validate(str(directory)))["files"] == "fail"


def test_kernels_of_two_devices_in_one_file_are_held_against_their_own_rows(tmp_path: Path) -> None:
    one, two = Profile(rank=0), Profile(rank=0, device=1, kernels=7)
    directory = profiles.write(tmp_path, one)
    output = directory / "ASCEND_PROFILER_OUTPUT"
    other = profiles.write(tmp_path / "other", two, started=one.started) / "ASCEND_PROFILER_OUTPUT"
    for name in ("kernel_details.csv", "step_trace_time.csv"):
        rows = (other / name).read_bytes().split(b"\r\n", 1)[1]
        (output / name).write_bytes((output / name).read_bytes() + rows)
    found = verdicts(validate(str(directory)))
    assert (found["computing-union"], found["stage-span"], found["op-statistic"]) == ("pass", "pass", "fail")


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the real exports are not on this machine")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("msinsight-910b-l1-text", {"same-kernels": "unproven"}),
        ("msinsight-910b-l1-db", {}),
        ("msinsight-910b-l0-text", {"same-kernels": "unproven", "configuration": "fail"}),
        ("msinsight-910a-l0-text", {"same-kernels": "unproven", "configuration": "fail"}),
        # A table that was cut in a row, no trace, and other metrics than PipeUtilization.
        ("msinsight-2023-gpt3", {"configuration": "fail", "files": "fail", "intact": "fail"}),
    ],
)
def test_real_exports(name: str, expected: dict[str, str]) -> None:
    """Their traces were shortened before they were published, all else is whole."""
    assert not_good(validate(str(SAMPLES / name))) == {"warmup-outside": "unproven", **expected}


def test_a_python_without_sqlite_judges_text_and_leaves_databases_unproven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, both = Profile(), Profile(export=("text", "db"))
    for name, profile in (("text", text), ("both", both)):
        profiles.write(tmp_path / name / "decode", profile)
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    assert validate(str(tmp_path / "text"), profiles.request(text))["verdict"] == "valid"
    assert not_good(validate(str(tmp_path / "both"), profiles.request(both))) == {"database": "unproven"}


def test_a_database_that_lacks_a_table_of_its_level(tmp_path: Path) -> None:
    directory = profiles.write(tmp_path, export=("db",))
    (database,) = (directory / "ASCEND_PROFILER_OUTPUT").glob("*.db")
    connection = sqlite3.connect(str(database))
    connection.execute("DROP TABLE CANN_API")
    connection.commit()
    connection.close()
    assert not_good(validate(str(directory)))["database"] == "fail"


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    profile = Profile(steps=3, kernels=5, export=("text", "db"), rank=0, collectives=True)
    return profiles.write(tmp_path_factory.mktemp("everything") / "decode", profile)


TOKENS = [
    b"",
    b"\0",
    b'"',
    b"\n",
    b"[]",
    b"{}",
    b"null",
    b"-1",
    b"nan",
    b"1e999",
    b"N/A",
    b"\xff",
    b"9" * 30,
    b"9" * 5000,
]


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_whatever_the_files_hold_there_is_an_answer(everything: Path, data: Any) -> None:
    path = data.draw(st.sampled_from(sorted(path for path in everything.rglob("*") if path.is_file())))
    whole = path.read_bytes()
    word = data.draw(st.sampled_from(list(re.finditer(rb"[-\w.]+|[^\w]", whole))))
    try:
        path.write_bytes(whole[: word.start()] + data.draw(st.sampled_from(TOKENS)) + whole[word.end() :])
        result = validate(str(everything.parent), profiles.request(Profile(steps=3, rank=0)))
    finally:
        path.write_bytes(whole)
    json.dumps(result, allow_nan=False)


@pytest.mark.parametrize(
    "expected", [{"steps": []}, {"since": "yesterday"}, {"warmup": {"decode": [1]}}, {"ranks": ["x"]}]
)
def test_expectations_that_cannot_be_read(tmp_path: Path, expected: dict[str, Any]) -> None:
    """Those of a caller are a mistake of the caller, those of a manifest make it a bad one."""
    profiles.write(tmp_path / "tree" / "decode")
    with pytest.raises((AttributeError, TypeError, ValueError)):
        validate(str(tmp_path / "tree"), expected)
    target = tmp_path / "p.tar.gz"
    document = {"expected": expected, "phases": expected.get("warmup", {})}
    pack(tree(str(tmp_path / "tree"), "profile_l1"), str(target), manifest=lambda files: {**document, "files": files})
    assert not_good(validate(str(target)))["manifest"] == "fail"
