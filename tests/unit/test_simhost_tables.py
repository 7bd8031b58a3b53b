"""The writer of npu-smi's tables: every layout as it stands in the terminal, and what real hosts do to it."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from simhost.hostside import tables
from simhost.hostside.tables import Die, Layout, info

SAMPLES = Path(__file__).parents[3] / "shared" / "cases" / "npu-smi"
JOB = ((70215, "python3.10", 18233),)
# Both lines of a device and the row of a process, as typed from the page of widths.
ROWS = {
    "310 of 21.x": """
| 2       X4        | OK              | 12.8              44                   |
| 1       5         | 0000:5A:00.0    | 3                 2611 / 8192          |
""",
    "310P of 22.0.2": """
| 2       X4            | OK              | 12.8         44                7    / 9              |
| 1       5             | 0000:5A:00.0    | 3            2611 / 8192                             |
""",
    "310P of 22.0.4": """
| 2       X4                    | OK              | 12.8         44                7    / 9              |
| 1       5                     | 0000:5A:00.0    | 3            2611 / 8192                             |
""",
    "310P": """
| 2       X4                    | OK              | 12.8         44                7     / 9             |
| 1       5                     | 0000:5A:00.0    | 3            2611 / 8192                             |
| 2       1                     | 70215           | python3.10               | 18233                     |
""",
    "310B": """
| 2       X4                    | OK              | 12.8         44                7     / 9             |
| 1       5                     | 0000:5A:00.0    | 3            2611 / 8192                             |
""",
    "910A of 21.x": """
| 2     X4             | OK            | 12.8        44                7    / 9             |
| 1                    | 0000:5A:00.0  | 3           411  / 15077      2611 / 8192          |
""",
    "910A": """
| 2     X4                  | OK            | 12.8        44                7    / 9             |
| 1                         | 0000:5A:00.0  | 3           411  / 15077      2611 / 8192          |
""",
    "A2": """
| 2     X4                  | OK            | 12.8        44                7    / 9             |
| 1                         | 0000:5A:00.0  | 3           411  / 15077      2611 / 8192          |
| 2       1                 | 70215         | python3.10               | 18233                   |
""",
    "A2 of 26.x": """
| 2     X4                  | OK            | 12.8                 44                      7    / 9                |
| 1                         | 0000:5A:00.0  | 3                    411  / 15077            2611 / 8192             |
| 2       1                 | 70215         | python3.10         | 18233                 | NA                      |
""",
    "A3": """
| 2     X4                  | OK            | 12.8        44                7    / 9             |
| 1     5                   | 0000:5A:00.0  | 3           411  / 15077      2611 / 8192          |
| 2       1                 | 70215         | python3.10               | 18233                   |
""",
    "A3 of 26.x": """
| 2     X4                  | OK            | 12.8                 44                      7    / 9                |
| 1     5                   | 0000:5A:00.0  | 3                    411  / 15077            2611 / 8192             |
| 2       1                 | 70215         | python3.10         | 18233                 | NA                      |
""",
    "A5": """
| 2      | X4               | OK            | 12.8        44                7     / 9             |
|        |                  | 0000:5A:00.0  | 3           411  / 15077      2611  / 8192          |
| 2                         | 70215         | python3.10               | 18233                   |
""",
    "A5 of 25.6": """
| 2      | X4               | OK            | 12.8                  44                       7     / 9             |
|        |                  | 0000:5A:00.0  | 3                     411   / 15077            2611  / 8192          |
| 2                         | 70215         | python3.10         | 18233                 | NA                      |
""",
}
ROWS["910A of 24.1"] = ROWS["A2"]


def every_layout() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("layout", tables.LAYOUTS, ids=lambda layout: layout.key)


@every_layout()
def test_the_rows_of_a_device(layout: Layout) -> None:
    die = Die(
        2, 1, 5, "X4", power="12.8", temp=44, pages=(7, 9), bus="0000:5A:00.0", util=3, ddr=(411, 15077),
        memory=(2611, 8192), processes=JOB,
    )  # fmt: skip
    rows = [line.rstrip() for line in info(layout, [die]).splitlines() if line.startswith(("| 2 ", "| 1 ", "|    "))]
    assert [row for row in rows if "Bus-Id" not in row] == ROWS[layout.key].strip().splitlines()


@every_layout()
def test_all_lines_are_equally_wide(layout: Layout) -> None:
    lines = info(layout, [Die(0, 0), Die(0, 1), Die(9)], "21.0.3.1", "21.0.3.1").splitlines()
    assert {len(line) for line in lines} == {len(lines[0])}
    assert all(line.strip()[0] == line.strip()[-1] for line in lines)


@every_layout()
def test_the_bars_of_a_row_stand_below_those_of_its_heading(layout: Layout) -> None:
    def bars(line: str) -> list[int]:
        return [at for at, mark in enumerate(line) if mark in "|+"]

    lines = info(layout, [Die(0, processes=JOB)]).splitlines()
    (name,) = (line for line in lines if "Name" in line)
    assert bars(lines[lines.index(name) - 1]) == bars(name) == bars(lines[lines.index(name) + 3])


def test_a_long_value_pushes_what_follows() -> None:
    text = info(tables.A2, [Die(0, memory=(29954, 65536)), Die(1, memory=(129954, 655360))])
    assert " 29954/ 65536         |\n" in text
    assert " 129954/ 655360        |\n" in text


def test_dies_of_a_card_are_divided_by_another_rule_than_cards() -> None:
    def rules(layout: Layout) -> list[str]:
        lines = info(layout, [Die(0, 0), Die(0, 1), Die(3, 0)]).splitlines()
        return [after for line, after in pairwise(lines) if "0000:C1:00.0" in line]

    unbroken, card, _ = rules(tables.A3)
    assert re.fullmatch(r"\+-+\+", unbroken)
    assert re.fullmatch(r"\+=+\+=+\+=+\+", card)
    assert re.fullmatch(r"\+-+\+-+\+-+\+", rules(tables.P310)[0])
    # the wide table of Atlas A5 has the card rules of other layouts
    assert (rules(tables.A5)[-1].count("+"), rules(tables.A5_25_6)[-1].count("+")) == (5, 4)


def test_an_npu_is_said_to_be_without_processes_once_and_only_when_all_its_dies_are() -> None:
    text = info(tables.A3, [Die(0, 0), Die(0, 1, processes=JOB), Die(1, 0), Die(1, 1)])
    assert re.findall(r"No running processes found in NPU (\d+)", text) == ["1"]


def test_an_npu_can_have_neither_a_process_nor_a_line_that_says_so() -> None:
    assert re.findall(r"found in NPU (\d+)", info(tables.A5, [Die(0), Die(1, silent=True)])) == ["0"]


def test_an_orphan_has_lost_its_first_line() -> None:
    whole, orphaned = (info(tables.A2, [Die(0), Die(1, name="910B9", orphan=lost)]) for lost in (False, True))
    assert [line for line in whole.splitlines() if line not in orphaned.splitlines()] == [
        line for line in whole.splitlines() if "910B9" in line
    ]


def captures() -> list[dict[str, Any]]:
    """Tables as captured, where that collection lies beside the checkout."""
    index = SAMPLES / "index.jsonl"
    cases = [json.loads(line) for line in index.read_text().splitlines()] if index.is_file() else []
    return [case for case in cases if case["kind"] == "real" and case["expected"].get("devices")]


@pytest.mark.parametrize("case", captures(), ids=lambda case: case["file"])
def test_a_real_table_is_written_again_to_the_byte(case: dict[str, Any]) -> None:
    text = (SAMPLES / case["file"]).read_text()
    rows = [line for line in text.partition("Process id")[0].splitlines() if line.startswith("| ")]
    rows = [line for line in rows if not re.search("npu-smi|NPU|Bus-Id", line)]
    dies = []
    for said, upper, lower in zip(case["expected"]["devices"], rows[::2], rows[1::2], strict=True):
        upper_cells, lower_cells = ([cell.strip() for cell in line.strip(" |").split("|")] for line in (upper, lower))
        power, temp, *pages = re.sub(r"\s*/\s*", " ", upper_cells[-1]).split()
        pairs = [tuple(map(int, pair)) for pair in re.findall(r"(\d+)\s*/\s*(\d+)", lower_cells[-1])]
        second = said.get("logic_id") if said.get("logic_id") is not None else said.get("phy_id")
        dies.append(
            Die(
                said["npu_id"],
                said.get("chip_id") or 0,
                second=second or 0,
                name=said["name"],
                health=said["health"],
                power=power,
                temp=int(temp),
                pages=tuple(map(int, pages)) or (0, 0),
                bus=lower_cells[-2],
                util=said["aicore_pct"],
                ddr=pairs[0],
                memory=pairs[-1],
                processes=tuple((row["pid"], row["name"], row["mem_mb"]) for row in said["processes"]),
                silent=f"found in NPU {said['npu_id']} " not in text,
            )
        )
    versions = case["npu_smi_version"], case["driver_version"]
    ends = {line[-1] for line in text.splitlines()}
    layouts = [layout._replace(line_end=" " if ends == {" "} else "") for layout in tables.LAYOUTS]
    assert text.rstrip("\n") in [info(layout, dies, *versions).rstrip("\n") for layout in layouts]
