"""Reading the largest table of npu-smi, against only splitting its lines at the bars."""

from __future__ import annotations

import timeit

from collect_agent.npu.choice import groups
from collect_agent.npu.interpret import parse_info
from collect_agent.npu.judge import Wish, judge
from collect_agent.npu.numbering import join
from npu_smi_tables import A3, Die, info


def run(rounds: int) -> str:
    busy, idle = (info(A3, [die(npu, chip, count) for npu in range(8) for chip in (0, 1)]) for count in (8, 0))
    verdicts = judge(join(parse_info(idle), (), in_container=False))
    cases = {
        "split the lines of 16 dies, 128 processes": lambda: [line.split("|") for line in busy.splitlines()],
        "read them": lambda: parse_info(busy),
        "choose 4 of 16 free dies": lambda: groups(verdicts, Wish(count=4)),
    }
    lines = ["| | ms |", "| --- | ---: |"]
    for name, case in cases.items():
        lines.append(f"| {name} | {min(timeit.repeat(case, number=20, repeat=2 * rounds)) / 20 * 1e3:.2f} |")
    return "\n".join(lines)


def die(npu: int, chip: int, processes: int) -> Die:
    rows = tuple((10_000 * (npu + 1) + 100 * chip + row, "VLLMEngineCore", 5000) for row in range(processes))
    return Die(npu, chip, 2 * npu + chip, name="Ascend910", processes=rows)
