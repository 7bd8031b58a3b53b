#!/usr/bin/env python3
"""How long reading the largest table of npu-smi takes, against only splitting its lines at the bars."""

from __future__ import annotations

import sys
import timeit
from pathlib import Path

for folder in ("agent", "tests"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / folder))

from collect_agent.npu.choice import groups  # noqa: E402
from collect_agent.npu.interpret import parse_info  # noqa: E402
from collect_agent.npu.judge import Wish, judge  # noqa: E402
from collect_agent.npu.numbering import join  # noqa: E402
from npu_smi_tables import A3, Die, info  # noqa: E402


def die(npu: int, chip: int, processes: int) -> Die:
    rows = tuple((10_000 * (npu + 1) + 100 * chip + row, "VLLMEngineCore", 5000) for row in range(processes))
    return Die(npu, chip, 2 * npu + chip, name="Ascend910", processes=rows)


busy, idle = (info(A3, [die(npu, chip, count) for npu in range(8) for chip in (0, 1)]) for count in (8, 0))
verdicts = judge(join(parse_info(idle), (), in_container=False))
cases = {
    "split the lines of 16 dies, 128 processes": lambda: [line.split("|") for line in busy.splitlines()],
    "read 16 dies, 128 processes": lambda: parse_info(busy),
    "choose 4 of 16 free dies": lambda: groups(verdicts, Wish(count=4)),
}
for name, case in cases.items():
    print(f"{min(timeit.repeat(case, number=20, repeat=10)) / 20 * 1e3:6.2f} ms  {name}")
