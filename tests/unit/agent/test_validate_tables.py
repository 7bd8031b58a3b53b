"""CSV tables and the arithmetic on them: exact times, damage found while reading, unions of intervals."""

from __future__ import annotations

import io
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect_agent.trace.sketch import Sketch, time_key
from collect_agent.trace.stream import Damage
from collect_agent.validate import aggregates, kernels, tables
from collect_agent.validate.intervals import Union
from collect_agent.validate.tables import picoseconds


@given(st.decimals(min_value=-(10**17), max_value=10**17, places=6), st.sampled_from(["", "\t", " "]))
def test_times_are_exact_whatever_the_epoch(value: Decimal, tail: str) -> None:
    assert picoseconds(f"{value:f}{tail}") == value * 10**6


@pytest.mark.parametrize(
    ("cell", "ps"),
    [
        ("1736408883840600.069\t", 1736408883840600069000),
        ("9882.851999999993", 9882851999),
        ("1.5E+3", 1500 * 10**6),
        ("0", 0),
    ],
)
def test_forms_of_times_in_real_files(cell: str, ps: int) -> None:
    assert picoseconds(cell) == ps


@pytest.mark.parametrize("cell", ["", "N/A", "1.2.3", "0x10", "Infinity", "nan"])
def test_a_cell_that_is_no_time_is_damage(cell: str) -> None:
    with pytest.raises(Damage):
        picoseconds(cell)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12))))
def test_union_is_the_number_of_covered_cells(intervals: list[tuple[int, int]]) -> None:
    union, covered = Union(), set()
    for start, length in intervals:
        union.add(10**21 + start, 10**21 + start + length)
        covered.update(range(start, start + length))
    assert union.length() == len(covered)


def test_union_of_many_intervals_that_come_a_little_late() -> None:
    union, late, far = Union(), Union(), Union()
    starts = [10 * number for number in range(10_000)]
    for start in starts:
        union.add(start, start + 7)
    for block in range(0, len(starts), 50):
        for start in reversed(starts[block : block + 50]):
            late.add(start, start + 7)
    assert union.length() == late.length() == 70_000
    for start in reversed(starts):
        far.add(start, start + 7)
    assert far.length() is None  # too late to tell


GOOD = b'Name,Call Stack\nmm,"a.py(1): f;\r\nb.py(2): g"\nadd,\n'


def test_cells_may_hold_line_breaks_and_lines_may_end_either_way() -> None:
    for data in (GOOD, GOOD.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + GOOD):
        assert [row[0] for row in tables.rows(io.BytesIO(data))] == ["Name", "mm", "add"]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (GOOD[:-1], "ends inside a line"),
        (GOOD[:24], "not a CSV table|ends inside a line"),
        (GOOD + b"\0\0\0\0", "NUL"),
        (GOOD + b"relu\n", "1 cells in line 5 and 2 columns"),
        (GOOD + b"\xff\xfe,1\n", "not UTF-8"),
        (b"Name,Name\n", "twice"),
    ],
)
def test_damaged_tables(data: bytes, what: str) -> None:
    with pytest.raises(Damage, match=what):
        list(tables.rows(io.BytesIO(data)))


@given(st.integers(1, len(GOOD) - 2))
def test_a_table_cut_anywhere_but_behind_a_row_is_damage(size: int) -> None:
    ends_of_rows = [len(b"Name,Call Stack\n"), len(GOOD) - len(b"add,\n")]
    if size in ends_of_rows:
        return
    with pytest.raises(Damage):
        list(tables.rows(io.BytesIO(GOOD[:size])))


def test_kernels_out_of_order_and_on_several_devices_are_summed_by_step() -> None:
    header = "Step Id,Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),aic_mac_ratio\n"
    rows = [
        "3,0,mm,MatMulV2,AI_CORE,900.000\t,50.5,0,0.5",
        "3,0,add,Add,AI_VECTOR_CORE,100.000\t,10,0,0.0",
        "3,0,mm,MatMulV2,AI_CORE,920.000\t,50.5,0,N/A",
        "3,0,hcom_allReduce__1,hcom_allReduce_,HCCL,940.000\t,100,0,N/A",
        "3,1,mm,MatMulV2,MIX_AIC,900.000\t,7,0,0.25",
        ",0,late,Cast,AI_CPU,2000.000\t,3,0,N/A",
    ]
    found = kernels.read(io.BytesIO((header + "\n".join(rows) + "\n").encode()))
    step = found.steps[("0", "3")]
    assert step.computing.length() == 80_500_000  # 900 to 970.5 and 100 to 110
    assert step.communicating.length() == 100_000_000
    assert (step.first, step.last, step.kernels, step.communication) == (100_000_000, 1_040_000_000, 4, 1)
    assert (found.rows, found.compute_rows, found.compute_duration) == (6, 5, 121_000_000)
    assert (found.ai_core_rows, found.measured_rows, found.nonzero_rows) == (4, 3, 2)
    assert set(found.steps) == {("0", "3"), ("1", "3"), ("0", "")}


def test_a_count_that_is_none_and_a_missing_column_are_damage() -> None:
    header = "OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n"
    with pytest.raises(Damage, match="where a count belongs"):
        aggregates.op_statistic(io.BytesIO(header.encode() + b"Add,AI_VECTOR_CORE,1.5,3,1,1,1,100\n"))
    with pytest.raises(Damage, match="no column Ratio"):
        aggregates.op_statistic(io.BytesIO(header.replace(",Ratio(%)", "").encode()))


def test_statistics_of_calls_must_agree_with_themselves() -> None:
    header = b"Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance\n"
    good = b"acl,launch,474.41,4,118.603,89.18,138.75,389.155\n"
    assert aggregates.api_statistic(io.BytesIO(header + good)) == (1, "")
    for bad in (good.replace(b"474.41", b"574.41"), good.replace(b"89.18", b"119.18"), good.replace(b",4,", b",5,")):
        assert aggregates.api_statistic(io.BytesIO(header + good.replace(b"acl", b"rts") + bad)) == (2, "launch")


@given(st.sets(st.integers(0, 10**6)), st.sets(st.integers(0, 10**6)), st.integers(1, 30))
def test_sketches_of_a_part_and_of_the_whole_agree(part: set[int], rest: set[int], limit: int) -> None:
    def sketch(numbers: set[int]) -> Sketch:
        made = Sketch()
        made.LIMIT = limit
        for number in numbers:
            made.add(str(number))
        return made

    found, wanted = sketch(part).found_in(sketch(part | rest))
    assert found == wanted <= limit
    strangers, _ = sketch(rest - part).found_in(sketch(part))
    assert strangers == 0


def test_times_are_the_same_key_however_they_are_written() -> None:
    assert (
        len({time_key(text) for text in ("1736408883704643.210\t", "1736408883704643.21", " 1736408883704643.2100")})
        == 1
    )
    assert time_key("1736408883704643.000") == time_key("1736408883704643") != time_key("1736408883704643.001")
