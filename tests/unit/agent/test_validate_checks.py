"""Every check catches what its table says: one damage a check, made on a profile that was sound before."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profiles
from collect_agent.output.archive import MANIFEST
from collect_agent.output.pack import pack
from collect_agent.validate import CHECKS, TREE_CHECKS, validate
from profiles import Profile

OUTPUT = "ASCEND_PROFILER_OUTPUT"


def lines(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def edit(name: str, pattern: str, replacement: str, count: int = 0) -> Callable[..., Any]:
    """Change text of an output file (or of profiler_info.json) by a regular expression."""

    def damage(directory: Path, asked: dict[str, Any]) -> None:
        path = directory / name if name.startswith("profiler_info") else directory / OUTPUT / name
        text = path.read_bytes().decode()
        changed = re.sub(pattern, replacement, text, count=count)
        assert changed != text
        path.write_bytes(changed.encode())

    return damage


def drop_rows(name: str, *numbers: int) -> Callable[..., Any]:
    return lambda directory, asked: lines(
        directory / OUTPUT / name, lambda rows: [row for number, row in enumerate(rows) if number not in numbers]
    )


def double_row(name: str, number: int) -> Callable[..., Any]:
    return lambda directory, asked: lines(
        directory / OUTPUT / name, lambda rows: [*rows[:number], rows[number], *rows[number:]]
    )


def remove(*names: str) -> Callable[..., Any]:
    return lambda directory, asked: [(directory / OUTPUT / name).unlink() for name in names]


def warm_up(**changes: Any) -> Callable[..., Any]:
    sound = {"warmup_seconds": [0.9, 0.1], "step_seconds": [0.1, 0.1, 0.1], "recompiles": 0}
    return ask(warmup={"decode": {**sound, **changes}})


def foreign_manifest(directory: Path, asked: dict[str, Any]) -> None:
    files = [{"path": "profile_l1/x", "size": 1, "sha256": ""}]
    (directory.parent / "manifest.json").write_text(json.dumps({"files": files}))


def unlink_all(directory: Path, asked: dict[str, Any]) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            path.unlink()


def ask(**changes: Any) -> Callable[..., Any]:
    return lambda directory, asked: asked.update(changes)


def events(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Callable[..., Any]:
    def damage(directory: Path, asked: dict[str, Any]) -> None:
        path = directory / OUTPUT / "trace_view.json"
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    return damage


def cut(name: str, size: int) -> Callable[..., Any]:
    return lambda directory, asked: (directory / OUTPUT / name).write_bytes(
        (directory / OUTPUT / name).read_bytes()[:size]
    )


def edit_database(statement: str) -> Callable[..., Any]:
    def damage(directory: Path, asked: dict[str, Any]) -> None:
        (path,) = (directory / OUTPUT).glob("*.db")
        with contextlib.closing(sqlite3.connect(str(path))) as connection:
            connection.execute(statement)
            connection.commit()

    return damage


def drop_table(name: str) -> Callable[..., Any]:
    return edit_database(f"DROP TABLE {name}")


def log(line: str) -> Callable[..., Any]:
    def damage(directory: Path, asked: dict[str, Any]) -> None:
        (directory / "logs").mkdir()
        (directory / "logs" / "profiler_20260204070809_4711_KernelViewParser.log").write_text(line + "\n")

    return damage


def all_of(*damages: Callable[..., Any]) -> Callable[..., Any]:
    return lambda directory, asked: [damage(directory, asked) for damage in damages]


def one_type(directory: Path, asked: dict[str, Any]) -> None:
    edit("kernel_details.csv", r"(?<=,)(MatMulV2|Add|Swish|FlashAttentionScore|Index)(?=,dynamic)", "Graph")(
        directory, asked
    )


def without_kernels(directory: Path, asked: dict[str, Any]) -> None:
    remove("kernel_details.csv", "op_statistic.csv", "step_trace_time.csv")(directory, asked)
    events(lambda trace: [event for event in trace if event["pid"] != 88128])(directory, asked)


DB_OF_2 = {"export": ("db",), "rank": 2}

# id, what was done, the verdict, what the message says, fields of the sound profile.
CASES: list[tuple[str, Callable[..., Any], str, str, dict[str, Any]]] = [
    ("profiler-info", lambda d, a: (d / "profiler_info.json").unlink(), "fail", "never stopped", {}),
    ("profiler-info", edit("profiler_info.json", "end_info", "begin_info"), "fail", "no end_info", {}),
    ("profiler-info", edit("profiler_info.json", r"\}$", ""), "fail", "not JSON", {}),
    (
        "profiler-info",
        lambda d, a: (d / "profiler_info_7.json").write_bytes((d / "profiler_info.json").read_bytes()),
        "fail",
        "profiler_info.json and profiler_info_7.json are in one directory",
        {},
    ),
    (
        "profiler-info",
        edit("profiler_info_3.json", '"rank_id": 3', '"rank_id": "5"'),
        "fail",
        "rank 5 inside",
        {"rank": 3},
    ),
    ("configuration", ask(level="Level2"), "fail", "collected at Level1, asked for Level2", {}),
    ("configuration", ask(aic_metrics="MemoryUB"), "fail", "with aic_metrics PipeUtilization, asked for MemoryUB", {}),
    ("configuration", ask(export=["text", "db"]), "fail", "exported as text, asked for db", {}),
    ("configuration", edit("profiler_info.json", '"Level1"', '"Level0"'), "fail", "collected at Level0", {}),
    ("files", remove("step_trace_time.csv"), "fail", "step_trace_time.csv is not there", {}),
    ("files", remove("op_statistic.csv", "api_statistic.csv"), "fail", "op_statistic.csv are not there", {}),
    ("files", remove("operator_details.csv"), "fail", "operator_details.csv is not there", {}),
    ("files", remove("communication.json"), "warn", "communication.json is not there", {"collectives": True}),
    (
        "files",
        remove("ascend_pytorch_profiler.db"),
        "fail",
        "is not there|no ASCEND_PROFILER_OUTPUT",
        {"export": ("db",)},
    ),
    ("files", lambda d, a: (d / OUTPUT).rename(d / "PROF_000001_1"), "fail", "raw data only, never parsed", {}),
    ("files", lambda d, a: (d / OUTPUT / "l2_cache.csv").touch(), "fail", "l2_cache.csv is empty", {}),
    (
        "files",
        remove(
            "kernel_details.csv", "step_trace_time.csv", "op_statistic.csv", "api_statistic.csv", "operator_details.csv"
        ),
        "fail",
        "only trace_view.json: export_chrome_trace writes no more",
        {},
    ),
    (
        "intact",
        cut("kernel_details.csv", -20),
        "fail",
        r"kernel_details\.csv has \d+ cells in line 51 and 47 columns",
        {},
    ),
    ("intact", cut("operator_details.csv", -3), "fail", "ends inside a line", {}),
    ("intact", cut("operator_details.csv", 160), "fail", r"operator_details\.csv", {}),
    ("intact", lambda d, a: lines(d / OUTPUT / "api_statistic.csv", lambda r: [*r, b"\0" * 512]), "fail", "NUL", {}),
    ("intact", edit("step_trace_time.csv", "Bubble", "Bubbles"), "fail", "no column Bubble", {}),
    ("intact", lambda d, a: (d / "profiler_metadata.json").write_text("{"), "fail", "metadata.json is not JSON", {}),
    ("kernels", without_kernels, "fail", r"no kernel ran on the NPU during the window \(is the model on npu:0\?\)", {}),
    ("kernels", cut("kernel_details.csv", 0), "na", "could not be read", {}),
    ("columns", edit("kernel_details.csv", "Accelerator Core", "Task Type"), "fail", "no column Accelerator Core", {}),
    ("columns", edit("kernel_details.csv", "Stream ID", "Stream"), "fail", "no column Stream ID", {}),
    (
        "columns",
        edit("kernel_details.csv", "Step Id", "Block Num"),
        "warn",
        "cannot be told apart: no host records",
        {},
    ),
    ("columns", edit("kernel_details.csv", "aiv_vec_ratio", "aiv_vec_rate"), "fail", "no column aiv_vec_ratio", {}),
    ("columns", edit("kernel_details.csv", "Input Shapes", "Inputs"), "fail", "no column Input Shapes", {}),
    ("computing-union", edit("kernel_details.csv", "Step Id", "Step"), "fail", "step 1 .* has no kernels", {}),
    (
        "computing-union",
        edit("step_trace_time.csv", r"\n0,", "\n3,"),
        "fail",
        "step 1 of device 3 .* has no kernels",
        {},
    ),
    ("pmu-values", edit("kernel_details.csv", "_ratio", "_rate"), "fail", r"no aic_\*/aiv_\* columns", {}),
    ("pmu-values", edit("kernel_details.csv", r"\b0\.\d+(?=[,\r])", "N/A"), "fail", "no AI-core row has a number", {}),
    ("pmu-values", edit("kernel_details.csv", r"\b0\.\d{3}\b", "0.0"), "fail", "all core counters are 0", {}),
    (
        "pmu-values",
        edit("kernel_details.csv", r"MIX_AIC|AI_(VECTOR_)?CORE", "AI_CPU"),
        "unproven",
        "cannot be judged",
        {},
    ),
    (
        "pmu-values",
        edit("kernel_details.csv", r"\b0\.\d+(?=[,\r])", "N/A", 18),
        "warn",
        "of 20 AI-core rows have no",
        {"steps": 2, "kernels": 12},
    ),
    ("trace", cut("trace_view.json", -1), "fail", r"truncated \(unexpected end at byte \d+\)", {}),
    ("trace", lambda d, a: (d / OUTPUT / "trace_view.json").write_bytes(b"[]"), "fail", "no slice of the device", {}),
    ("trace", edit("trace_view.json", "Ascend Hardware", "Hardware"), "fail", "no slice of the device", {}),
    ("database", cut("ascend_pytorch_profiler.db", 9000), "fail", "not a whole SQLite database", {"export": ("db",)}),
    (
        "database",
        edit_database("UPDATE RANK_DEVICE_MAP SET rankId = 3"),
        "fail",
        "of rank 3, the .* of rank 2",
        DB_OF_2,
    ),
    (
        "database",
        lambda d, a: None,
        "warn",
        "holds no core counters: databases of this chip have none",
        {"export": ("db",), "chip": "910A"},
    ),
    ("database", drop_table("TASK_PMU_INFO"), "fail", "no rows in TASK_PMU_INFO", {"export": ("db",)}),
    (
        "one-run",
        edit_database("UPDATE TASK SET endNs = endNs + 60000000000"),
        "fail",
        "profiler.db covers .*, the profiler was on from",
        {"export": ("db",)},
    ),
    ("intact", double_row("api_statistic.csv", 1), "fail", "two rows of host acl aclopExecuteV2", {}),
    ("database", drop_table("CANN_API"), "fail", "no rows in CANN_API", {"export": ("db",)}),
    ("intact", drop_rows("api_statistic.csv", 1, 2), "fail", "has a header and no rows", {}),
    ("intact", edit("operator_details.csv", "Call Stack", "Stack"), "fail", "no column Call Stack", {}),
    ("api-statistic", edit("api_statistic.csv", "20.001", "26.001"), "fail", "contradicts itself at StreamSync", {}),
    ("computing-union", drop_rows("kernel_details.csv", 4), "fail", "step 1 of device 0: Computing is", {}),
    (
        "communication-union",
        drop_rows("kernel_details.csv", 11),
        "fail",
        "step 1 of device 0: Communication",
        {"collectives": True},
    ),
    ("stage-span", drop_rows("kernel_details.csv", 1), "fail", r"step 1 .*: Stage \+ Bubble is", {}),
    ("step-sum", edit("step_trace_time.csv", r"^(.*\n\d+,\d+,)\d", r"\g<1>99"), "fail", "step 1: its parts sum to", {}),
    (
        "op-statistic",
        drop_rows("kernel_details.csv", -1, 50),
        "fail",
        "counts 50 kernels, kernel_details.csv has 49",
        {},
    ),
    (
        "op-statistic",
        edit("op_statistic.csv", r",(\d+)(\.\d{3},.*,.*,.*,.*\n)$", r",9\1\2"),
        "fail",
        "sums Swish on .* to 953.770 us",
        {},
    ),
    ("op-statistic", edit("kernel_details.csv", r"41\.238", "41.138", 1), "fail", "sums MatMulV2 on AI_CORE to", {}),
    ("op-statistic", edit("kernel_details.csv", ",Add,", ",Mul,", 1), "fail", "counts 10 kernels of Add on", {}),
    (
        "op-statistic",
        edit("op_statistic.csv", r"6\.502,6\.502", "6.502,9.502"),
        "fail",
        "contradicts itself at Add",
        {},
    ),
    (
        "communication-json",
        edit("communication.json", r'"Start Timestamp\(us\)": 1', '"Start Timestamp(us)": 2'),
        "fail",
        "no communication row",
        {"collectives": True},
    ),
    ("columns", edit("kernel_details.csv", "cube_utilization", "cubes"), "warn", "no known export: cubes", {}),
    ("intact", double_row("kernel_details.csv", 3), "fail", "has its row 3 twice", {}),
    ("intact", double_row("step_trace_time.csv", 2), "fail", "has two rows of 0 2", {}),
    ("intact", double_row("op_statistic.csv", 1), "fail", "has two rows of 0 Add AI_VECTOR_CORE", {}),
    ("op-statistic", edit("op_statistic.csv", r"\d\.\d{3}\n$", "0.001\n"), "fail", "ratios .* sum to", {}),
    (
        "one-run",
        edit("profiler_info.json", r'("collectionTimeEnd": \d)\d', r"\g<1>0"),
        "fail",
        "the profiler was on from",
        {},
    ),
    (
        "same-kernels",
        edit("trace_view.json", r'"ts": "(\d+)', r'"ts": "\g<1>7'),
        "fail",
        "no kernel of kernel_details",
        {},
    ),
    (
        "same-kernels",
        edit("kernel_details.csv", r"(\.\d{3})\t", r"\g<1>5\t", 10),
        "unproven",
        "only 40 of 50 kernels are in",
        {},
    ),
    ("columns", edit("kernel_details.csv", "aiv_total_cycles", "cycles"), "fail", "no column aiv_total_cycles", {}),
    ("columns", edit("kernel_details.csv", "Block Dim", "Blocks"), "fail", "no column Block Dim", {}),
    ("one-run", edit("trace_view.json", r'"ts": "1\d', '"ts": "10'), "fail", "trace_view.json covers", {}),
    ("steps", ask(steps={"decode": 6}), "fail", r"captured 5 of 6 requested steps \(window not closed\)", {}),
    ("steps", ask(steps={"decode": 4}), "fail", "captured 5 steps, requested 4", {}),
    ("steps", drop_rows("step_trace_time.csv", 1), "fail", "captured 4 of 5 .*: step_trace_time.csv lacks step 1", {}),
    (
        "steps",
        all_of(ask(steps={}), edit("trace_view.json", "Step#3", "Step#x")),
        "fail",
        "trace_view.json lacks step 3",
        {},
    ),
    ("steps", lambda d, a: None, "unproven", "no file tells one step from another", {"scheduled": False}),
    (
        "window-closed",
        edit("profiler_info.json", '"active": 5', '"active": 7'),
        "fail",
        "captured 5 of 7 active steps",
        {},
    ),
    (
        "window-closed",
        edit("profiler_info.json", '"skip_first": 0', '"skip_first": 4'),
        "warn",
        "the first step is 1, .* 5",
        {},
    ),
    (
        "kernels-per-step",
        drop_rows("kernel_details.csv", 1, 2),
        "warn",
        "step 1 has 8 kernels, other steps have 10",
        {},
    ),
    ("operator-types", one_type, "warn", r"only 1 operator type in 5 steps \(graph mode\?\)", {}),
    ("freshness", lambda d, a: a.update(since=a["since"] + 3600), "fail", "older than this run", {}),
    (
        "log-messages",
        log("[ERROR] Failed to generate kernel_details.csv."),
        "warn",
        "the parser of that file raised",
        {},
    ),
    ("warmup-outside", warm_up(recompiles=1), "fail", "1 recompile inside", {}),
    (
        "warmup-outside",
        warm_up(warmup_seconds=[]),
        "unproven",
        "no warm-up step",
        {},
    ),
    (
        "warmup-outside",
        warm_up(step_seconds=[]),
        "unproven",
        "no step times",
        {},
    ),
    (
        "warmup-outside",
        warm_up(warmup_seconds=[9.0, 4.0], step_seconds=[5.0, 0.1, 0.1]),
        "unproven",
        r"the first step took 5\.000 s, others 0\.100 s, and the last warm-up step was slow too",
        {},
    ),
    (
        "warmup-outside",
        warm_up(warmup_seconds=[9.0, 0.1], step_seconds=[0.5, 0.1, 0.1]),
        "warn",
        "after a warm-up that was as fast: the host was busy",
        {},
    ),
    ("warmup-outside", ask(warmup={}), "unproven", "no record of the warm-up", {}),
    ("compile-in-window", lambda d, a: None, "fail", "one operator took 78.0 ms to compile", {"warm": False}),
    (
        "compile-in-window",
        edit("trace_view.json", r'"dur": 93\.0', '"dur": 12000.0'),
        "fail",
        "50 long compiles take",
        {},
    ),
    ("archive", lambda d, a: (d.parent / "p.tar.gz").write_bytes(b"\x1f\x8b"), "fail", "archive", {}),
    (
        "manifest",
        lambda d, a: (d.parent / "manifest.json").write_text(
            json.dumps({"files": [{"path": "profile_l1/x", "size": 1, "sha256": ""}]})
        ),
        "fail",
        "profile_l1/x is gone",
        {},
    ),
    (
        "profiles-found",
        unlink_all,
        "fail",
        "there is no profile",
        {},
    ),
    ("complete", ask(ranks=[0, 1]), "fail", "decode rank 1 is missing", {}),
    ("complete", ask(steps={"decode": 5, "prefill": 1}), "fail", "prefill rank 0 is missing", {}),
    (
        "complete",
        lambda d, a: profiles.write(d.parent, started=1_790_000_000.0),
        "fail",
        "decode rank 0 is there twice",
        {},
    ),
]


def judge(path: Path, asked: dict[str, Any], check: str) -> dict[str, Any]:
    result = validate(str(path), asked)
    checks = result["checks"] + [found for profile in result["profiles"] for found in profile["checks"]]
    return next(found for found in checks if found["id"] == check)


@pytest.mark.parametrize(
    ("check", "damage", "verdict", "message", "fields"), CASES, ids=[f"{case[0]}-{n}" for n, case in enumerate(CASES)]
)
def test_damage_is_caught(
    tmp_path: Path, check: str, damage: Callable[..., Any], verdict: str, message: str, fields: dict[str, Any]
) -> None:
    profile = Profile(**fields)
    directory = profiles.write(tmp_path / "decode", profile)
    asked = profiles.request(profile)
    damage(directory, asked)
    archive = tmp_path / "decode" / "p.tar.gz"
    found = judge(archive if archive.exists() else tmp_path / "decode", asked, check)
    assert found["verdict"] == verdict
    assert re.search(message, found["message"])


def test_every_check_is_documented_and_has_a_case_that_it_does_not_pass() -> None:
    assert {case[0] for case in CASES if case[2] != "na"} == set(CHECKS) | set(TREE_CHECKS)
    for check in CHECKS.values():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", check.id)
        assert check.catches and check.source and check.remedy
    for rule in TREE_CHECKS.values():
        assert rule.catches and rule.source and rule.remedy
    may_only_warn = {"kernels-per-step", "operator-types", "log-messages"}
    assert {case[0] for case in CASES if case[2] == "fail"} == (set(CHECKS) | set(TREE_CHECKS)) - may_only_warn


def test_an_archive_that_its_manifest_does_not_list(tmp_path: Path) -> None:
    pack([("profile_l1/a", b"x")], str(tmp_path / "p.tar.gz"), manifest=lambda files: {"files": []})
    found = judge(tmp_path / "p.tar.gz", {}, "archive")
    assert (found["verdict"], found["message"]) == ("fail", "archive member 'profile_l1/a' is not in the manifest")
    assert MANIFEST == "profile_l1/manifest.json"


def test_good_files_are_good_whatever_the_log_says(tmp_path: Path) -> None:
    profile = Profile()
    directory = profiles.write(tmp_path / "decode", profile)
    log("Failed to get acl to npu flow events.\n" * 100_000 + "x" * 300_000)(directory, {})
    result = validate(str(tmp_path), profiles.request(profile))
    assert result["verdict"] == "valid"


def test_the_first_step_of_both_is_compared_with_its_own_kind(tmp_path: Path) -> None:
    """A window that holds prefill and then decode: the long first step is no outlier."""
    profile = Profile()
    profiles.write(tmp_path / "both", profile)
    record = {
        "warmup_seconds": [9.0, 1.1, 0.1],
        "warmup_kinds": ["prefill", "prefill", "decode"],
        "step_seconds": [1.0, 0.1, 0.1, 0.1, 0.1],
        "step_kinds": ["prefill"] + ["decode"] * 4,
        "recompiles": 0,
    }
    asked = {"steps": {"both": 5}, "warmup": {"both": record}}
    assert judge(tmp_path, asked, "warmup-outside")["verdict"] == "pass"
    record["warmup_seconds"] = [9.0, 0.2, 0.1]
    assert judge(tmp_path, asked, "warmup-outside")["verdict"] == "warn"
    record["step_seconds"][2] = 2.0  # a late hiccup is nothing that warm-up could have prevented
    record["warmup_seconds"] = [9.0, 1.1, 0.1]
    assert judge(tmp_path, asked, "warmup-outside")["verdict"] == "pass"


def test_the_rule_of_the_downstream_analysis_is_told(tmp_path: Path) -> None:
    directory = profiles.write(tmp_path)
    assert judge(directory, {}, "warmup-outside")["flags"] == []
    edit("kernel_details.csv", r"41\.238", "841.238", 2)(directory, {})
    found = judge(directory, {}, "warmup-outside")
    assert found["flags"] == ["WARMUP_NOT_STRIPPED"]
    assert "the downstream analysis flags WARMUP_NOT_STRIPPED" in found["message"]


def test_without_a_record_the_steps_themselves_are_told(tmp_path: Path) -> None:
    found = judge(profiles.write(tmp_path / "warm", skip_first=7, warmup=2), {}, "warmup-outside")
    assert (found["verdict"], found["slow_start"]) == ("unproven", False)
    assert "by its number 9 steps went before the first recorded one" in found["message"]
    directory = profiles.write(tmp_path / "cold")
    events(lambda trace: [{**e, "dur": 3e6} if e["name"] == "ProfilerStep#1" else e for e in trace])(directory, {})
    found = judge(directory, {}, "warmup-outside")
    assert (found["verdict"], found["slow_start"]) == ("unproven", True)
    assert "the first step took 3.000 s, others 0.002 s" in found["message"]


def test_ranks_of_two_runs_are_no_run(tmp_path: Path) -> None:
    profile = Profile(rank=0)
    profiles.write(tmp_path / "decode", profile)
    profiles.write(tmp_path / "decode", profile, rank=1, started=profile.started + 3)  # another host, another clock
    asked = {**profiles.request(profile), "ranks": [0, 1]}
    assert judge(tmp_path, asked, "complete")["verdict"] == "pass"
    profiles.write(tmp_path / "decode", profile, rank=2, started=profile.started + 600)
    found = judge(tmp_path, {**asked, "ranks": [0, 1, 2]}, "complete")
    assert (found["verdict"], "not recorded at the same time" in found["message"]) == ("fail", True)


def test_what_did_not_run_on_the_device_is_said_once(tmp_path: Path) -> None:
    directory = profiles.write(tmp_path)
    without_kernels(directory, {})
    result = validate(str(directory))
    assert [check["id"] for check in result["profiles"][0]["checks"] if check["verdict"] == "fail"] == ["kernels"]
