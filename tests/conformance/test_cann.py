"""The real torch_npu on the simulated CANN: what it computes, and what its own parser makes of a run."""

from __future__ import annotations

import csv
import json
import os
import re
import sqlite3
import subprocess
import threading
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from simhost import cann as simulated

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).with_name("cann_programs.py")
pytestmark = pytest.mark.torch_npu

# kernel_details.csv of CANN 8.3 on Atlas A2 at Level1 with PipeUtilization, as real files have it.
COLUMNS_83 = """
Step Id,Device_id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),
Wait Time(us),Block Dim,Mix Block Dim,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,Output Shapes,
Output Data Types,Output Formats,Context ID,aicore_time(us),aic_total_cycles,aic_mac_time(us),aic_mac_ratio,
aic_scalar_time(us),aic_scalar_ratio,aic_mte1_time(us),aic_mte1_ratio,aic_mte2_time(us),aic_mte2_ratio,
aic_fixpipe_time(us),aic_fixpipe_ratio,aic_icache_miss_rate,aiv_time(us),aiv_total_cycles,aiv_vec_time(us),
aiv_vec_ratio,aiv_scalar_time(us),aiv_scalar_ratio,aiv_mte2_time(us),aiv_mte2_ratio,aiv_mte3_time(us),
aiv_mte3_ratio,aiv_icache_miss_rate,cube_utilization(%)
"""
TEXT_CASES = ("llama", "qwen2", "unet", "busy")
STEPS = {"llama": range(1, 6), "qwen2": range(5), "unet": range(1, 2), "busy": range(4, 6), "level0": range(1, 3)}


@pytest.fixture(scope="module")
def ascend_venv() -> Path:
    venv = Path(os.environ.get("COLLECT_REMOTE_ASCEND_VENV") or REPOSITORY / ".venv" / "ascend")
    try:
        simulated.torch_npu_package(venv)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    return venv


@pytest.fixture(scope="module")
def cann(ascend_venv: Path) -> simulated.Cann:
    return simulated.build(REPOSITORY / ".venv" / "simhost-cann", ascend_venv)


def environment(cann: simulated.Cann, **more: str) -> dict[str, str]:
    """What a sourced set_env.sh gives, and the operators."""
    return {
        "PATH": f"{cann.bin_dir}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", "/"),
        "LD_LIBRARY_PATH": str(cann.lib_dir),
        "ASCEND_HOME_PATH": str(cann.toolkit_dir),
        "ASCEND_OPP_PATH": str(cann.toolkit_dir / "opp"),
        "PYTHONPATH": str(cann.site_dir),
        "OMP_NUM_THREADS": "1",
        **more,
    }


def run(venv: Path, env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(venv / "bin" / "python"), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


# --- profiles -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def profiles(ascend_venv: Path, cann: simulated.Cann, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("profiles")
    done = run(ascend_venv, environment(cann), str(PROGRAMS), "profiles", str(out))
    answer(done)
    assert "run failed" not in done.stdout
    return out


def output(profiles: Path, case: str) -> Path:
    (found,) = profiles.joinpath(case).glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT")
    return found


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def interval(row: dict[str, str]) -> tuple[Decimal, Decimal]:
    start = Decimal(row["Start Time(us)"].strip())
    return start, start + Decimal(row["Duration(us)"])


def union(intervals: list[tuple[Decimal, Decimal]]) -> Decimal:
    length, reached = Decimal(0), Decimal(0)
    for start, end in sorted(intervals):
        length += max(end - max(start, reached), Decimal(0))
        reached = max(reached, end)
    return length


def close(left: Decimal, right: Decimal) -> bool:
    return abs(left - right) <= max(Decimal(1), abs(right) / 10000)


@pytest.mark.parametrize("case", TEXT_CASES)
def test_parser_writes_every_file_without_an_error(profiles: Path, case: str) -> None:
    here = output(profiles, case)
    wanted = {"kernel_details.csv", "op_statistic.csv", "api_statistic.csv", "step_trace_time.csv"}
    wanted |= {"operator_details.csv", "trace_view.json"}
    assert wanted <= {path.name for path in here.iterdir()}
    logs = "".join(path.read_text() for path in here.parent.joinpath("logs").iterdir())
    assert "[ERROR]" not in logs


@pytest.mark.parametrize("case", TEXT_CASES)
def test_columns_are_those_of_cann_83(profiles: Path, case: str) -> None:
    columns = list(rows(output(profiles, case) / "kernel_details.csv")[0])
    assert columns == COLUMNS_83.replace("\n", "").split(",")


@pytest.mark.parametrize("case", STEPS)
def test_steps_are_those_of_the_schedule(profiles: Path, case: str) -> None:
    here = output(profiles, case)
    expected = [str(step) for step in STEPS[case]]
    assert [row["Step"] for row in rows(here / "step_trace_time.csv")] == expected
    counts: dict[str, int] = defaultdict(int)
    for row in rows(here / "kernel_details.csv"):
        counts[row["Step Id"]] += 1
    assert sorted(counts) == expected
    assert len(set(counts.values())) == 1, "every step of these programs launches the same kernels"


@pytest.mark.parametrize("case", STEPS)
def test_step_times_follow_from_the_kernels(profiles: Path, case: str) -> None:
    """Stage ends with the last Free slice that began in the step, which reaches to the next step's first kernel."""
    kernels: dict[str, list[tuple[Decimal, Decimal]]] = defaultdict(list)
    for row in rows(output(profiles, case) / "kernel_details.csv"):
        kernels[row["Step Id"]].append(interval(row))
    steps = rows(output(profiles, case) / "step_trace_time.csv")
    for number, step in enumerate(steps):
        mine = kernels[step["Step"]]
        first, last = min(start for start, _ in mine), max(end for _, end in mine)
        if number + 1 < len(steps):
            last = min(start for start, _ in kernels[steps[number + 1]["Step"]])
        figures = {name: Decimal(step[name]) for name in step if name not in ("Step", "Device_id")}
        stage = figures["Stage"] + figures["Bubble"]
        assert close(figures["Computing"], union(mine))
        assert union(mine) <= sum(end - start for start, end in mine)
        assert close(stage, last - first)
        assert close(figures["Computing"] + figures["Communication(Not Overlapped)"] + figures["Free"], stage)
        assert figures["Communication"] == 0


@pytest.mark.parametrize("case", TEXT_CASES)
def test_statistics_are_the_sums_of_the_kernels(profiles: Path, case: str) -> None:
    here = output(profiles, case)
    kernels, statistic = rows(here / "kernel_details.csv"), rows(here / "op_statistic.csv")
    assert sum(int(row["Count"]) for row in statistic) == len(kernels)
    total = sum(Decimal(row["Duration(us)"]) for row in kernels)
    assert sum(Decimal(row["Total Time(us)"]) for row in statistic) == total
    assert abs(sum(Decimal(row["Ratio(%)"]) for row in statistic) - 100) < Decimal("0.05")
    launches = [row for row in rows(here / "api_statistic.csv") if row["API Name"] == "launch"]
    assert [(row["Device_id"], row["Level"], int(row["Count"])) for row in launches] == [("host", "node", len(kernels))]


def test_counters_fit_the_core(profiles: Path) -> None:
    seen = set()
    for case in TEXT_CASES:
        for row in rows(output(profiles, case) / "kernel_details.csv"):
            core = row["Accelerator Core"]
            seen.add(core)
            ratios = {name: value for name, value in row.items() if name.endswith("_ratio")}
            used = {"AI_CORE": {"aic"}, "AI_VECTOR_CORE": {"aiv"}, "MIX_AIC": {"aic", "aiv"}}.get(core)
            if used is None:
                assert set(ratios.values()) == {"N/A"}
                continue
            for name, value in ratios.items():
                assert 0 <= Decimal(value) <= 1
                assert (Decimal(value) > 0) == (name[:3] in used) or value == "0.0"
            for prefix, total in (("aic", "aicore_time(us)"), ("aiv", "aiv_time(us)")):
                assert (Decimal(row[total]) > 0) == (prefix in used)
                assert Decimal(row[total]) <= Decimal(row["Duration(us)"])
    assert {"AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "AI_CPU", "DSA_SQE"} <= seen


def test_trace_leads_from_every_kernel_to_its_operator(profiles: Path) -> None:
    trace = json.loads((output(profiles, "llama") / "trace_view.json").read_text())
    assert isinstance(trace, list)
    processes = {event["pid"]: event["args"]["name"] for event in trace if event["name"] == "process_name"}
    slices = [event for event in trace if event["ph"] == "X"]
    steps = {event["name"] for event in slices if event["name"].startswith("ProfilerStep#")}
    assert steps == {f"ProfilerStep#{number}" for number in range(1, 6)}
    on_device = [event for event in slices if processes[event["pid"]] == "Ascend Hardware"]
    assert len(on_device) == len(rows(output(profiles, "llama") / "kernel_details.csv"))
    arrivals = {event["ts"] for event in trace if event.get("cat") == "async_npu" and event["ph"] == "f"}
    assert {event["ts"] for event in on_device} == arrivals


def test_recorded_extras_are_filled(profiles: Path) -> None:
    here = output(profiles, "qwen2")
    details = rows(here / "operator_details.csv")
    assert any("24" in row["Input Shapes"] for row in details)
    assert any("cann_programs.py" in row["Call Stack"] for row in details)
    assert any(Decimal(row["Device Self Duration(us)"]) > 0 for row in details if row["Name"] == "aten::matmul")
    assert rows(here / "operator_memory.csv")
    assert rows(here / "memory_record.csv")


def test_level0_knows_names_and_times_only(profiles: Path) -> None:
    here = output(profiles, "level0")
    columns = list(rows(here / "kernel_details.csv")[0])
    assert columns[:3] == ["Step Id", "Device_id", "Name"]
    assert not [name for name in columns if name.endswith("_ratio") or "Stream" in name]
    assert not (here / "op_statistic.csv").exists()
    assert not (here / "api_statistic.csv").exists()


def test_another_metric_brings_its_own_columns(profiles: Path) -> None:
    columns = list(rows(output(profiles, "memory") / "kernel_details.csv")[0])
    assert [name for name in columns if "ub_read_bw" in name]
    assert not [name for name in columns if "mac_ratio" in name]


def test_database_export(profiles: Path) -> None:
    here = output(profiles, "db")
    assert {path.name for path in here.iterdir()} == {"ascend_pytorch_profiler.db", "analysis.db", "analyse.done"}
    database = sqlite3.connect(here / "ascend_pytorch_profiler.db")
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"TASK", "COMPUTE_TASK_INFO", "TASK_PMU_INFO", "CANN_API", "PYTORCH_API", "STEP_TIME", "NPU_INFO"} <= tables
    counters = "SELECT DISTINCT STRING_IDS.value FROM STRING_IDS JOIN TASK_PMU_INFO ON id = name"
    names = {name for (name,) in database.execute(counters)}
    assert {"aic_mac_ratio", "aiv_vec_ratio", "aic_total_cycles"} <= names
    ops = "SELECT COUNT(*) FROM PYTORCH_API WHERE connectionId IS NOT NULL"
    assert database.execute(ops).fetchone()[0] > 0
    database.close()
    analysis = sqlite3.connect(here / "analysis.db")
    steps = analysis.execute("SELECT step, computing, free, stage FROM StepTraceTime ORDER BY step").fetchall()
    analysis.close()
    assert [int(step) for step, *_ in steps] == [1, 2, 3]
    assert all(stage == pytest.approx(computing + free) for _, computing, free, stage in steps)


def test_profile_names_its_configuration(profiles: Path) -> None:
    info = json.loads((output(profiles, "llama").parent / "profiler_info.json").read_text())
    config = info["config"]["experimental_config"]
    assert (config["_profiler_level"], config["_aic_metrics"]) == ("Level1", "ACL_AICORE_PIPE_UTILIZATION")
    assert info["cann_version"] == simulated.CANN_VERSION


# --- the device ---------------------------------------------------------------------------------------------


def test_device_computes_what_the_cpu_computes(ascend_venv: Path, cann: simulated.Cann) -> None:
    said = answer(run(ascend_venv, environment(cann), str(PROGRAMS), "numbers"))
    assert max(said["apart"].values()) < 1e-5, said["apart"]
    assert "aclnn" in said["refused"], "an operator that is not simulated is an error, not silence"


@pytest.mark.parametrize(
    ("visible", "logic", "soc"), [(None, 5, "Ascend910_9392"), ("2", 2, "Ascend910B3"), ("0,2,x,5", 2, "Ascend910B3")]
)
def test_visible_devices_and_holders(
    ascend_venv: Path, cann: simulated.Cann, tmp_path: Path, visible: str | None, logic: int, soc: str
) -> None:
    table = ("0 1 0 65536 3000 Ascend910B3", "2 4 0 65536 3000 Ascend910B3", "5 5 1 32768 2500 Ascend910_9392")
    tmp_path.joinpath("devices").write_text("\n".join(table) + "\n")
    more = {"SIMHOST": str(tmp_path)}
    if visible is not None:
        more["ASCEND_RT_VISIBLE_DEVICES"] = visible
    said = answer(run(ascend_venv, environment(cann, **more), str(PROGRAMS), "device"))
    assert said["count"] == {None: 3, "2": 1, "0,2,x,5": 2}[visible]
    assert (said["name"], said["device"]) == (soc, f"npu:{said['count'] - 1}")
    (before,), (after,) = ([line.split() for line in text.splitlines()] for text in said["held"])
    assert before[0] == after[0] == str(logic)
    assert int(after[1]) - int(before[1]) >= 200
    assert said["before"][0] - said["after"][0] >= 200 << 20
    assert "out of memory" in said["full"]
    assert list(tmp_path.joinpath("holders").iterdir()) == [], "a process that has ended holds nothing"


# --- the host ----------------------------------------------------------------------------------------------


def test_without_set_env_the_import_fails_as_on_a_real_host(ascend_venv: Path) -> None:
    done = run(ascend_venv, {"PATH": os.environ["PATH"]}, "-c", "import torch")
    assert done.returncode != 0
    assert re.search(r"lib\w+\.so: cannot open shared object file", done.stderr)


def test_python_starts_without_torch(ascend_venv: Path, cann: simulated.Cann) -> None:
    env = {"PATH": os.environ["PATH"]}
    listing = "print([name for name in sys.modules if name.split('.')[0] in ('torch', 'torch_npu')])"
    assert run(ascend_venv, env, "-c", f"{cann.pth_line}; {listing}").stdout.strip() == "[]"


def test_builds_at_the_same_time_give_one_toolkit(ascend_venv: Path, tmp_path: Path) -> None:
    built: list[simulated.Cann] = []
    threads = [threading.Thread(target=lambda: built.append(simulated.build(tmp_path, ascend_venv))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(built)) == 1
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1
    assert subprocess.run([built[0].bin_dir / "msprof", "--help"], capture_output=True).returncode == 0


def test_msprof_refuses_what_is_no_profile(cann: simulated.Cann, tmp_path: Path) -> None:
    command = [cann.bin_dir / "msprof", "--export=on", f"--output={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "[ERROR]" in done.stderr
    assert list(tmp_path.iterdir()) == []
