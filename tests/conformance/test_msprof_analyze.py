"""What we collect is what downstream takes: msprof-analyze, from PyPI, in a venv of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from collect_agent.archive import extract
from harness import Tool
from simhost import SimHost

ANALYZE = Path(__file__).resolve().parents[2] / ".venv" / "msprof-analyze" / "bin" / "msprof-analyze"


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
    done = subprocess.run(
        [ANALYZE, "advisor", "all", "-d", rank, "-o", tmp_path / "advice"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    # It exits 0 whatever happens: its files and its own words tell.
    said = done.stdout + done.stderr
    assert [line for line in said.splitlines() if "[ERROR]" in line] == []
    assert list((tmp_path / "advice").glob("mstt_advisor_*.html")), said
    assert list((tmp_path / "advice").rglob("mstt_advisor_*.xlsx")), said
