"""`Profile.load` with the real pandas, in the venv of the downstream tools, which bring it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import results

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "downstream" / "bin" / "python"
GOOD = """
import sys
from collect_remote import Profile

profile = Profile.at(sys.argv[1])
kernels, rows = profile.load("kernel_details.csv"), list(profile.rows("kernel_details.csv"))
assert list(kernels.columns) == list(rows[0])
assert len(kernels) == len(rows)
assert kernels["Duration(us)"].sum().round(3) == round(sum(float(row["Duration(us)"]) for row in rows), 3)
assert str(kernels["Start Time(us)"].dtype) == "float64", "a tab behind a number makes no text of it"
"""
DAMAGED = """
import sys
from collect_remote import Profile
from collect_remote.errors import ProfileInvalid

profile = Profile.at(sys.argv[1])
for file in profile.manifest["files"]:
    file["sha256"] = file["sha256"] if sys.argv[2:] else "0" * 64
try:
    profile.load("op.csv")
except ProfileInvalid as error:
    sys.exit(str(error))
"""

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason=f"no pandas in {PYTHON.parents[1]}")


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYTHON, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'controller'}:{ROOT / 'agent'}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_table_as_a_data_frame(tmp_path: Path) -> None:
    done = run(GOOD, results.publish(tmp_path))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("table", "arguments", "message"),
    [
        (b"a,b\n1,2\n", [], "op.csv in .* is not what its manifest lists"),
        (b"a,b\n1,2\n1,2,3\n", ["as listed"], "op.csv is no table: .* line 3"),
        (b"", ["as listed"], "op.csv is no table: No columns"),
        (b"a,b\n1,\xff\n", ["as listed"], "op.csv is no table: .*utf-8"),
    ],
)
def test_a_damaged_table_is_one_clear_error(tmp_path: Path, table: bytes, arguments: list[str], message: str) -> None:
    done = run(DAMAGED, results.made(tmp_path / "r", {"op.csv": table}), *arguments)
    assert done.returncode == 1
    assert re.fullmatch(f".*{message}.*\n", done.stderr), done.stderr
