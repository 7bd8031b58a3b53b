"""What the light runtime's profiler writes: files, columns, and figures that agree across them."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from test_light import ACTIVE3, Host, Profile

# Steps that nobody waits for: the host is through with one long before the device is.
UNSYNCHRONISED = """
big = torch.ones(8192, 8192, device="npu:0")
def step():
    for _ in range(12):
        big @ big
"""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def union(intervals: list[tuple[Decimal, Decimal]]) -> Decimal:
    """The length that the intervals cover together."""
    total, reached = Decimal(0), min(start for start, _ in intervals)
    for start, stop in sorted(intervals):
        total += max(stop - max(start, reached), Decimal(0))
        reached = max(stop, reached)
    return total


def spans(profile: Profile) -> dict[str, list[tuple[Decimal, Decimal]]]:
    """(start, end) in us of each step's kernels, in the order of the stream."""
    found: dict[str, list[tuple[Decimal, Decimal]]] = {}
    for row in profile.table("kernel_details.csv"):
        start = Decimal(row["Start Time(us)"].strip())
        found.setdefault(row["Step Id"], []).append((start, start + Decimal(row["Duration(us)"])))
    return found


def slices(profile: Profile, *names: str) -> list[tuple[str, Decimal, Decimal]]:
    """(name, start, end) in us of the trace's slices of these names, by their start."""
    chosen = [event for event in profile.trace() if event["ph"] == "X" and event["name"] in names]
    starts = [(event["name"], Decimal(event["ts"]), Decimal(str(event["dur"]))) for event in chosen]
    return sorted(((name, start, start + lasted) for name, start, lasted in starts), key=lambda found: found[1])


def test_level1_has_the_named_files_and_columns(host: Host) -> None:
    host.run(ACTIVE3, RANK=0).ok()
    profile = host.profile()
    assert profile.files() == {
        "analyse.done", "api_statistic.csv", "kernel_details.csv", "op_statistic.csv", "operator_details.csv",
        "step_trace_time.csv", "trace_view.json",
    }  # fmt: skip
    columns = profile.columns("kernel_details.csv")
    assert len(columns) == 47
    assert columns[:2] == ["Step Id", "Device_id"]
    assert {"aic_mac_ratio", "aiv_vec_ratio", "cube_utilization(%)"} <= set(columns)
    assert len(profile.columns("step_trace_time.csv")) == 11
    assert len(profile.columns("operator_details.csv")) == 9
    rows = profile.table("kernel_details.csv")
    assert len(set(Counter(row["Step Id"] for row in rows).values())) == 1
    cores = {row["Accelerator Core"] for row in rows}
    assert {"AI_CORE", "AI_VECTOR_CORE"} <= cores
    assert any(Decimal(row["aic_mac_ratio"]) > 0 for row in rows if row["Accelerator Core"] == "AI_CORE")
    info = profile.info()
    assert info["rank_id"] == "0"
    assert info["config"]["experimental_config"]["_aic_metrics"] == "ACL_AICORE_PIPE_UTILIZATION"
    assert info["config"]["common_config"]["schedule"]["active"] == 3
    assert info["torch_npu_version"] == "2.13.0"
    metadata = json.loads((profile.path / "profiler_metadata.json").read_text())
    assert len(metadata["ENV_VARIABLES"]) == 9
    assert {path.name.split("_")[0] for path in profile.path.iterdir() if path.is_dir()} == {
        "ASCEND", "FRAMEWORK", "PROF", "logs",
    }  # fmt: skip


@pytest.mark.parametrize("synchronised", [True, False])
def test_step_times_follow_from_the_kernels_to_the_last_digit(host: Host, synchronised: bool) -> None:
    """As the real parser counts: idle time belongs to the step in whose range it begins, and a step's range lasts until
    both the host and the device have ended it. The device idles after a step that was waited for, so Free and Stage
    reach to the next step's first kernel; they do not when the device ended the step last.
    """
    host.run(
        ("" if synchronised else UNSYNCHRONISED) + "collect(5, P.schedule(wait=0, warmup=1, active=4, repeat=1))"
    ).ok()
    profile = host.profile()
    kernels, rows = spans(profile), profile.table("step_trace_time.csv")
    assert [row["Step"] for row in rows] == list(kernels)
    beginnings = [own[0][0] for own in kernels.values()]
    for row, own, following in zip(rows, kernels.values(), [*beginnings[1:], None], strict=True):
        ((_, began, ended),) = slices(profile, f"ProfilerStep#{row['Step']}")
        first, last = own[0][0], own[-1][1]
        assert (ended > last) is synchronised, "the premise"
        figures = {name: Decimal(cell) for name, cell in row.items() if name not in ("Step", "Device_id")}
        stage = figures["Stage"] + figures["Bubble"]
        assert stage == (following if synchronised and following else last) - first
        assert figures["Computing"] == union(own)
        assert figures["Computing"] + figures["Communication(Not Overlapped)"] + figures["Free"] == stage
        assert figures["Preparing"] == first - began


def test_the_overlap_analysis_leaves_no_gap(host: Host) -> None:
    host.run(ACTIVE3).ok()
    profile = host.profile()
    found = slices(profile, "Computing", "Free")
    kernels = [span for own in spans(profile).values() for span in own]
    assert [(start, end) for name, start, end in found if name == "Computing"] == kernels
    assert all(end == start for (_, _, end), (_, start, _) in pairwise(found))
    free = sum(end - start for name, start, end in found if name == "Free")
    assert sum(Decimal(row["Free"]) for row in profile.table("step_trace_time.csv")) == free


def test_statistics_are_the_sums_of_the_kernels(host: Host) -> None:
    host.run("collect(6, P.schedule(wait=0, warmup=1, active=5, repeat=1))").ok()
    kernels, operators = (host.profile().table(name) for name in ("kernel_details.csv", "op_statistic.csv"))
    total = sum(Decimal(row["Duration(us)"]) for row in kernels)
    assert sum(Decimal(row["Total Time(us)"]) for row in operators) == total
    assert sum(int(row["Count"]) for row in operators) == len(kernels)
    assert abs(sum(Decimal(row["Ratio(%)"]) for row in operators) - 100) < Decimal("0.01")


def test_the_trace_is_one_complete_list(host: Host) -> None:
    host.run("collect(4, P.schedule(wait=0, warmup=1, active=3, repeat=1), record_shapes=True, with_stack=True)").ok()
    trace = host.profile().trace()
    processes = {event["args"]["name"] for event in trace if event["name"] == "process_name"}
    assert processes == {"Python", "CANN", "Ascend Hardware", "Overlap Analysis"}
    assert {event["name"] for event in trace if event["name"].startswith("ProfilerStep#")} == {
        "ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3",
    }  # fmt: skip
    slices = [event for event in trace if event["ph"] == "X"]
    assert all(re.fullmatch(r"\d+\.\d{3}", event["ts"]) and event["dur"] >= 0 for event in slices)
    flows = Counter((event["cat"], event["ph"]) for event in trace if event["ph"] in "sf")
    for category in ("async_npu", "HostToDevice", "async_task_queue"):
        assert flows[category, "s"] == flows[category, "f"] == len(host.profile().table("kernel_details.csv"))
    linear = next(event for event in slices if event["name"] == "aten::addmm")
    assert linear["args"]["Input Dims"].split(";\r\n")[0] == "8,64"
    assert "<string>" in linear["args"]["Call stack"]


@pytest.mark.parametrize(
    ("asked", "columns", "missing", "warned"),
    [
        ("level='Level0'", 9, {"op_statistic.csv", "api_statistic.csv"}, True),
        ("npu=True, cpu=False", 46, {"operator_details.csv"}, False),
        ("cpu=True, npu=False", 0, {"kernel_details.csv", "step_trace_time.csv", "op_statistic.csv"}, True),
        ("level='Level2'", 47, set(), False),
    ],
)
def test_other_configurations_leave_files_and_columns_out(
    host: Host, asked: str, columns: int, missing: set[str], warned: bool
) -> None:
    run = host.run(f"collect(4, P.schedule(wait=0, warmup=1, active=3, repeat=1), {asked})").ok()
    assert bool(run.messages("WARNING")) is warned
    profile = host.profile()
    assert not missing & profile.files()
    assert isinstance(profile.trace(), list)
    if columns:
        assert len(profile.columns("kernel_details.csv")) == columns


def test_memory_is_recorded_on_request(host: Host) -> None:
    host.run("collect(4, P.schedule(wait=0, warmup=1, active=3, repeat=1), profile_memory=True)").ok()
    profile = host.profile()
    rows = profile.table("operator_memory.csv")
    assert len(profile.columns("operator_memory.csv")) == 15
    assert {"aten::addmm", "aten::silu"} <= {row["Name"] for row in rows}
    assert any(row["Release Time(us)"] for row in rows)
    assert len(profile.columns("memory_record.csv")) == 7
    assert len(profile.columns("npu_module_mem.csv")) == 5


def test_databases_instead_of_text(host: Host) -> None:
    host.run("collect(4, P.schedule(wait=0, warmup=1, active=3, repeat=1), export='db')", RANK=3).ok()
    profile = host.profile()
    assert profile.files() == {"analyse.done", "ascend_pytorch_profiler_3.db", "analysis.db"}
    with sqlite3.connect(profile.output / "ascend_pytorch_profiler_3.db") as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        wanted = {"TASK", "COMPUTE_TASK_INFO", "TASK_PMU_INFO", "STRING_IDS", "CANN_API", "PYTORCH_API", "STEP_TIME"}
        assert wanted <= tables
        counters = db.execute("SELECT value FROM STRING_IDS WHERE id IN (SELECT name FROM TASK_PMU_INFO)").fetchall()
        assert ("aic_mac_ratio",) in counters
        # Every step waits for its kernels: they lie within it. The idle time behind its last one is not counted here.
        expected = db.execute("""
            SELECT CAST(id AS TEXT), SUM(TASK.endNs - TASK.startNs), MAX(TASK.endNs) - MIN(TASK.startNs)
            FROM TASK JOIN STEP_TIME ON TASK.startNs BETWEEN STEP_TIME.startNs AND STEP_TIME.endNs
            GROUP BY id ORDER BY id
        """).fetchall()
    with sqlite3.connect(profile.output / "analysis.db") as db:
        rows = db.execute("SELECT step, computing, free, stage FROM StepTraceTime").fetchall()
    assert [step for step, *_ in rows] == ["1", "2", "3"]
    assert [(step, round(computing * 1000), round(stage * 1000)) for step, computing, _, stage in rows] == expected
    assert all(computing + free == pytest.approx(stage) for _, computing, free, stage in rows)
    # A window that was recorded for the database can be turned into text later.
    host.run("P.analyse(OUT, export_type=['text'])").ok()
    assert "kernel_details.csv" in profile.files()


def test_an_old_cann_cannot_export_databases(host: Host) -> None:
    host.msprof.write_text("#!/bin/sh\n")
    run = host.run("collect(2, P.schedule(wait=0, warmup=1, active=1, repeat=1), export='db')").ok()
    assert "Current CANN package version does not support export db." in run.messages("ERROR")[0]


def test_canns_own_files_stay_only_in_unsimplified_data(host: Host) -> None:
    host.run("collect(4, P.schedule(wait=0, warmup=1, active=3, repeat=1), simplify=False)").ok()
    (summary,) = host.profile().path.glob("PROF_*/mindstudio_profiler_output/op_summary_*.csv")
    with summary.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["Op Name"] for row in rows] == [row["Name"] for row in host.profile().table("kernel_details.csv")]


def test_a_model_on_the_cpu_leaves_no_kernels(host: Host) -> None:
    run = host.run(
        """
model.cpu()
def step():
    model(torch.ones(8, 64))
"""
        + ACTIVE3
    ).ok()
    assert run.messages("ERROR")[0].startswith("Failed to get acl to npu flow events.")
    assert "kernel_details.csv" not in host.profile().files()
    assert isinstance(host.profile().trace(), list)
