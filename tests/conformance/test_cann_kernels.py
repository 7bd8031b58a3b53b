"""What the simulated device makes of operators, for any operators: the rules that CANN's files keep."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhost import kernels

names = st.sampled_from(
    ["aten::mm", "aten::add_.Tensor", "aten::_softmax", "aten::convolution", "aten::normal_", "aten::_unique2",
     "aten::scaled_dot_product_attention", "aten::some_new_operator"]
)  # fmt: skip
tensors = st.builds(
    kernels.Tensor,
    st.lists(st.integers(1, 64), max_size=4).map(tuple),
    st.sampled_from(["torch.float32", "bfloat16", "torch.bool", "int64"]),
)
several = st.lists(tensors, min_size=1, max_size=3).map(tuple)


@st.composite
def operators(draw: st.DrawFn) -> list[kernels.Operator]:
    """Calls of one thread, timed or not; some are shorter than a launch takes."""
    made, now = [], 1_700_000_000_000_000_000
    for _ in range(draw(st.integers(1, 12))):
        now += draw(st.integers(0, 200_000))
        length = draw(st.none() | st.integers(0, 100_000))
        end = None if length is None else now + length
        made.append(kernels.Operator(draw(names), now, end, draw(several), draw(several), 4711))
        now = end or now
    return made


@given(operators())
def test_kernels_of_a_stream_follow_their_launch_and_each_other(calls: list[kernels.Operator]) -> None:
    stream = kernels.timeline(calls, device_id=3)
    assert [kernel.launch_ns for kernel in stream] == sorted(call.start_ns for call in calls)
    for kernel in stream:
        assert kernel.start_ns >= kernel.launch_ns + kernel.launch_duration_ns
        assert kernel.duration_ns > 0
    for before, after in pairwise(stream):
        assert after.start_ns - before.end_ns == after.wait_ns > 0


@given(operators())
def test_statistics_are_exact_sums(calls: list[kernels.Operator]) -> None:
    stream = kernels.timeline(calls)
    summary = [kernels.op_summary_row(kernel, "Level1", kernels.PIPE_UTILIZATION) for kernel in stream]
    statistic = kernels.op_statistic_rows(stream)
    assert sum(Decimal(row["Total Time(us)"]) for row in statistic) == sum(
        Decimal(row["Task Duration(us)"]) for row in summary
    )
    assert sum(int(row["Count"]) for row in statistic) == len(stream)
    for row in statistic:
        assert Decimal(row["Min Time(us)"]) <= Decimal(row["Avg Time(us)"]) <= Decimal(row["Max Time(us)"])


@given(operators(), st.sampled_from(["ACL_AICORE_MEMORY_UB", "ACL_AICORE_L2_CACHE", kernels.PIPE_UTILIZATION]))
def test_a_row_has_every_column_and_plausible_counters(calls: list[kernels.Operator], metrics: str) -> None:
    for kernel in kernels.timeline(calls):
        row = kernels.op_summary_row(kernel, "Level1", metrics)
        assert tuple(row) == kernels.op_summary_columns("Level1", metrics)
        for name, cell in row.items():
            if name.endswith("_ratio") and cell != "N/A":
                assert 0 <= Decimal(cell) <= 1
            elif name == "cube_utilization(%)" and cell != "N/A":
                assert 0 <= Decimal(cell) <= 100
        shapes = row["Output Shapes"].strip('"').split(";")
        assert len(shapes) == len(row["Output Data Types"].split(";")) == len(row["Output Formats"].split(";"))


@pytest.mark.parametrize(
    ("name", "kernel", "core"),
    [
        ("aten::addmm", "aclnnAddmm_MatMulCommon_MatMulV2", "AI_CORE"),
        ("aten::_log_softmax", "aclnnLogSoftmax_LogSoftmaxAiCore_LogSoftmaxV2", "AI_VECTOR_CORE"),
        ("copy_", "aclnnInplaceCopy_TensorMoveAiCore_TensorMove", "AI_VECTOR_CORE"),
        ("aten::max_pool2d_with_indices.out", "MaxPoolWithArgmaxV1", "AI_VECTOR_CORE"),
    ],
)
def test_kernels_are_called_as_cann_calls_them(name: str, kernel: str, core: str) -> None:
    (made,) = kernels.timeline([kernels.Operator(name, 0, None)])
    assert made.name.endswith(kernel)
    assert made.core == core


@pytest.mark.parametrize(
    ("ns", "text"), [(1736408883704643212, "1736408883704643.212"), (7, "0.007"), (-1500, "-1.500")]
)
def test_microseconds_lose_nothing(ns: int, text: str) -> None:
    assert kernels.microseconds(ns) == text


def test_the_same_operators_give_the_same_rows() -> None:
    call = kernels.Operator("aten::mm", 5, None, (kernels.Tensor((64, 32), "float16"),) * 2)
    rows = [kernels.op_summary_row(*kernels.timeline([call]), "Level1", kernels.PIPE_UTILIZATION) for _ in range(2)]
    assert rows[0] == rows[1]
