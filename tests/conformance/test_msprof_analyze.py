"""What we collect is what downstream takes: msprof-analyze, from PyPI, in a venv of its own."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from collect_agent.output.archive import extract
from harness import Tool
from simhost import SimHost

ANALYZE = Path(__file__).resolve().parents[2] / ".venv" / "downstream" / "bin" / "msprof-analyze"


def analyze(*arguments: object) -> str:
    """Run msprof-analyze; what it says. It exits 0 whatever happens: its files and its own words tell."""
    done = subprocess.run(
        [ANALYZE, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )
    said = done.stdout + done.stderr
    assert [line for line in said.splitlines() if "[ERROR]" in line] == []
    return said


@pytest.mark.torch_npu
def test_the_advisor_accepts_a_pulled_profile(
    host: Callable[..., SimHost], tool: Tool, ascend_runtime: str, tmp_path: Path
) -> None:
    if not ANALYZE.exists():
        pytest.skip(f"no msprof-analyze in {ANALYZE.parents[1]}: ./scripts/test installs it where PyPI has it")
    tool.inventory(host(runtime=ascend_runtime))
    outcome = tool.collect("--phase", "decode")
    assert outcome.status == 0, outcome.err
    # A copy: viewers write into what they read.
    extract(str(tool.directory / outcome.document["archive"]["path"]), str(tmp_path / "copy"))
    (rank,) = (tmp_path / "copy").glob("profile_l1/decode/*_ascend_pt")
    said = analyze("advisor", "all", "-d", rank, "-o", tmp_path / "advice")
    assert list((tmp_path / "advice").glob("mstt_advisor_*.html")), said
    assert list((tmp_path / "advice").rglob("mstt_advisor_*.xlsx")), said


@pytest.mark.torch_npu
@pytest.mark.exhaustive
@pytest.mark.parametrize("hosts", [1, 2])
def test_cluster_analysis_and_comparison_accept_the_ranks(
    host: Callable[..., SimHost], tool: Tool, ascend_runtime: str, tmp_path: Path, hosts: int
) -> None:
    if not ANALYZE.exists():
        pytest.skip(f"no msprof-analyze in {ANALYZE.parents[1]}: ./scripts/test installs it where PyPI has it")
    tool.inventory(*(host(name=f"ascend0{number}", runtime=ascend_runtime) for number in range(1, hosts + 1)))
    ranks = ("--nodes", "ascend02") if hosts > 1 else ("--devices", "2")
    outcome = tool.collect(*ranks, "--phase", "decode", "--steps", "5")
    assert outcome.status == 0, outcome.err
    extract(str(tool.directory / outcome.document["archive"]["path"]), str(tmp_path / "copy"))
    phase = tmp_path / "copy" / "profile_l1" / "decode"

    analyze("cluster", "-d", phase, "-m", "all", "-o", tmp_path / "cluster")
    (table,) = (tmp_path / "cluster").rglob("cluster_step_trace_time.csv")
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted((int(row["Index"]), int(row["Step"])) for row in rows if row["Type"] == "rank") == [
        (rank, step) for rank in (0, 1) for step in range(1, 6)
    ]

    first, second = sorted(phase.glob("*_ascend_pt"))
    analyze("compare", "-d", first, "-bp", second, "-o", tmp_path / "compared")
    assert list((tmp_path / "compared").glob("performance_comparison_result_*.xlsx"))
