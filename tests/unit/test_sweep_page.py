"""What docs/sweep.md says is what the code says and does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import pages
import sweeps
from collect_remote.sweeps import peers, report, summary
from collect_remote.sweeps.peers import rows, slower

PAGE = (pages.DOCS / "sweep.md").read_text()


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    words = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}
    assert f"at least {words[peers.MIN_PEERS]} others" in PAGE
    assert f"more than {peers.RATIO_LIMIT:.2f} times" in PAGE
    assert f"a modified z-score above {peers.Z_LIMIT}" in PAGE
    assert f"{peers.Z_SCALE} x (value - median) / MAD" in PAGE
    assert f"at least {peers.MAD_FLOOR:.0%} of the median".replace("%", " %") in PAGE
    assert f"at least {peers.SHARE_PCT:g} % of its kernels' time" in PAGE
    assert f"the {summary.SHOWN} kernels with the largest total" in PAGE
    assert f"More than {summary.MANY} different names" in PAGE
    assert f"else {report.NOT_ALL_VALID} " in PAGE
    for column in ("decode_step_median_ms", "free_pct", "kernel_1_mean_us"):
        assert f"`{column}`" in PAGE
        assert column in report.COLUMNS


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq")
def test_what_the_page_asks_of_the_json_is_answered(tmp_path: Path) -> None:
    cells = [
        *(sweeps.valid(sweeps.pending(f"h{n}"), [sweeps.profile(factor=2.0 if not n else 1.0)]) for n in range(6)),
        sweeps.failed(sweeps.pending("dead")),
        sweeps.pending("later"),
    ]
    document = report.document(cells, slower(rows(cells)), tmp_path, 0.0)
    (tmp_path / "sweep.json").write_text(json.dumps(document))
    commands = re.findall(r"^    (jq .*)$", PAGE, re.MULTILINE)
    said = [
        subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
        for line in commands
    ]
    ok, bad, slow, kernels = said
    assert (ok.returncode, ok.stdout) == (1, "false\n")
    assert [line.split("\t")[:3] for line in bad.stdout.splitlines()] == [
        ["dead/llama/decode", "failed", "unreachable"],
        ["later/llama/decode", "pending", ""],
    ]
    assert slow.stdout.startswith("h0: 4 of 4 figures")
    assert len(kernels.stdout.splitlines()) == 6 * len(sweeps.KERNELS)
    assert [process.stderr for process in said] == [""] * 4
