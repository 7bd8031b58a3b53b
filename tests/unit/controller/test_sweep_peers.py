"""Which hosts are slower than their peers: planted ones are found with their evidence, noise is not."""

from __future__ import annotations

import dataclasses
import random
import statistics
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sweeps
from collect_remote.sweeps.cells import Progress
from collect_remote.sweeps.peers import MAD_FLOOR, MIN_PEERS, RATIO_LIMIT, Z_LIMIT, Z_SCALE, Finding, rows, slower

FLEET = [f"ascend{number:02}" for number in range(1, 11)]


def fleet(planted: dict[str, dict[str, Any]] | None = None, hosts: list[str] = FLEET, **cell: Any) -> list[Progress]:
    """A valid cell on each host, its times with a scatter of half a percent; `planted`: parameters of single ones."""
    noise = random.Random(7)
    return [
        sweeps.valid(
            sweeps.pending(host, **cell),
            [sweeps.profile(**{"factor": noise.gauss(1, 0.005), **(planted or {}).get(host, {})})],
        )
        for host in hosts
    ]


def found(cells: list[Progress]) -> list[Finding]:
    return slower(rows(cells))


def test_a_slow_kernel_is_named_with_its_evidence() -> None:
    (finding,) = found(fleet({"ascend04": {"factor": 1.0, "kernels": {"MatMulV2": 412 / 301}}}))
    assert (finding.host, finding.what, finding.unit, finding.peers) == ("ascend04", "MatMulV2", "us", 9)
    assert finding.value == pytest.approx(412)
    assert finding.median == pytest.approx(301, rel=0.01)
    assert finding.ratio == pytest.approx(412 / 301, rel=0.01)
    assert finding.z > 3.5
    assert finding.why.startswith("llama decode MatMulV2: 412 us a call against 30")
    assert finding.why.endswith("us, 1.37 x, 9 peers")


def test_a_host_that_is_slower_in_everything_is_one_finding() -> None:
    (finding,) = found(fleet({"ascend09": {"factor": 1.3}}))
    assert (finding.host, finding.what) == ("ascend09", "most figures")
    assert finding.ratio == pytest.approx(1.3, rel=0.01)
    assert finding.evidence[0].what == "step"
    assert {one.what for one in finding.evidence[1:]} == {"Add", "FlashAttentionScore", "MatMulV2"}
    assert finding.why.startswith("4 of 4 figures, 1.3")


def test_a_slow_step_with_kernels_as_fast_as_elsewhere_is_said_to_be_between_them() -> None:
    (finding,) = found(fleet({"ascend02": {"step_ms": 17.0, "free_pct": 48.0}}))
    assert finding.what == "step"
    assert [one.what for one in finding.evidence] == ["step"]
    assert "its kernels are as fast, free 48 % of the step against 20 %" in finding.why


def test_steps_come_before_kernels_and_the_rest_is_counted() -> None:
    (finding,) = found(fleet({"ascend02": {"step_ms": 12.0, "kernels": {"MatMulV2": 1.5}, "factor": 1.0}}))
    assert finding.what == "step"
    assert [one.what for one in finding.evidence] == ["step", "MatMulV2"]
    assert "as fast" not in finding.why
    assert finding.why.endswith("; and 1 more")


def test_a_window_of_both_kinds_has_a_figure_of_each() -> None:
    cells = fleet({"ascend02": {"step_ms": 12.0}}, phase="both")
    for cell in cells:
        steps = cell.outcome.summary["profiles"][0]["steps"]  # type: ignore[union-attr, index]
        steps["prefill"] = {**steps["decode"], "median_ms": 80.0}
    (finding,) = found(cells)
    assert finding.what == "decode step"


def test_several_slow_hosts_do_not_hide_each_other() -> None:
    planted = {host: {"kernels": {"FlashAttentionScore": 1.4 + 0.1 * n}} for n, host in enumerate(FLEET[:4])}
    findings = found(fleet(planted))
    assert [finding.host for finding in findings] == FLEET[:4]
    assert {one.what for finding in findings for one in finding.evidence} == {"FlashAttentionScore"}


def test_collectives_and_what_takes_no_time_are_not_compared() -> None:
    kernels = {"hcom_allReduce_": 3.0}
    assert found(fleet({"ascend05": {"factor": 1.0, "kernels": kernels}})) == []
    tiny = fleet()
    for cell in tiny:
        top = cell.outcome.summary["profiles"][0]["kernels"]["top"]  # type: ignore[union-attr, index]
        top.append({"name": "Cast", "core": "AI_CORE", "calls": 1, "total_us": 1.0, "mean_us": 1.0, "share_pct": 0.9})
    top[-1]["mean_us"] = 9.0
    assert found(tiny) == []
    top[-1]["share_pct"] = 1.1
    assert [finding.what for finding in found(tiny)] == ["Cast"], "what is small elsewhere may be large here"


@pytest.mark.parametrize(("hosts", "known"), [(MIN_PEERS, False), (MIN_PEERS + 1, True)])
def test_too_few_peers_prove_nothing(hosts: int, known: bool) -> None:
    assert bool(found(fleet({"ascend01": {"factor": 3.0}}, FLEET[:hosts]))) == known


def test_peers_that_agree_to_the_last_digit_make_no_outlier_of_a_little() -> None:
    same = {host: {"factor": 1.0} for host in FLEET}
    assert found(fleet({**same, "ascend01": {"factor": 1.09}})) == []
    (finding,) = found(fleet({**same, "ascend01": {"factor": 1.12}}))
    assert finding.z == pytest.approx(0.6745 * 0.12 / 0.01)


def test_a_fleet_that_scatters_widely_has_no_outlier_at_twenty_percent() -> None:
    scattered = {host: {"step_ms": 10 + n % 5, "factor": 1.0} for n, host in enumerate(FLEET)}
    scattered["ascend10"]["step_ms"] = 14.6
    assert found(fleet(scattered)) == []


@pytest.mark.parametrize(
    "other",
    [{"model": "qwen"}, {"phase": "prefill"}, {"steps": 20}, {"level": 2}],
    ids=lambda other: next(iter(other)),
)
def test_only_the_same_is_compared(other: dict[str, Any]) -> None:
    slow = fleet({"ascend01": {"factor": 2.0}}, ["ascend01"], **other)
    assert found(fleet(hosts=FLEET[1:]) + slow) == []
    assert found(fleet(hosts=FLEET[1:]) + fleet({"ascend01": {"factor": 2.0}}, ["ascend01"]))


def test_another_model_of_the_same_name_is_another_model() -> None:
    def of(digest: str, cell: Progress) -> Progress:
        return dataclasses.replace(cell, cell=dataclasses.replace(cell.cell, model_digest=digest))

    first, *others = fleet({"ascend01": {"factor": 2.0}})
    assert found([of("a", first), *(of("a", other) for other in others)])
    assert found([of("b", first), *(of("a", other) for other in others)]) == []


def test_where_a_result_goes_and_how_long_it_may_take_makes_no_other_group() -> None:
    assert found(fleet(hosts=FLEET[1:]) + fleet({"ascend01": {"factor": 2.0}}, ["ascend01"], timeout=77.0))


def test_another_bin_of_the_chip_is_another_chip() -> None:
    cells = fleet({"ascend01": {"factor": 1.4}})
    cells[0].outcome.summary["profiles"][0]["device_name"] = "910B4"  # type: ignore[union-attr, index]
    assert found(cells) == []


def test_ranks_have_their_likes_as_peers() -> None:
    def cell(host: str, slow: float) -> Progress:
        return sweeps.valid(
            sweeps.pending(host), [sweeps.profile(rank=0, step_ms=20.0), sweeps.profile(rank=1, factor=slow)]
        )

    (finding,) = found([cell(host, 1.5 if host == "ascend03" else 1.0) for host in FLEET])
    assert {one.rank for one in finding.evidence} == {1}
    assert finding.evidence[0].device == "NPU 1"
    assert "llama decode rank 1 " in finding.why


OLD = {**sweeps.VERSIONS, "cann": "8.0.RC1"}


def released(old: list[str], slow: dict[str, float]) -> list[Progress]:
    return [
        sweeps.valid(
            sweeps.pending(host),
            [sweeps.profile(factor=slow.get(host, 1.0))],
            OLD if host in old else None,
        )
        for host in FLEET
    ]


def test_peers_have_the_same_releases_where_there_are_enough() -> None:
    old = FLEET[:5]
    assert found(released(old, dict.fromkeys(old, 1.4))) == [], "old releases are slower, no host is"
    (finding,) = found(released(old, {**dict.fromkeys(old, 1.4), "ascend01": 2.1}))
    assert (finding.host, finding.peers) == ("ascend01", 4)
    assert "releases" not in finding.why


def test_peers_with_other_releases_are_better_than_none_and_are_told() -> None:
    (finding,) = found(released(["ascend01"], {"ascend01": 1.4}))
    assert finding.peers == 9
    assert "9 peers (with other releases of cann among them)" in finding.why


def test_a_kernel_that_few_others_have_is_not_compared() -> None:
    cells = fleet({}, [*FLEET, "ascend11", "ascend12"])
    for n, cell in enumerate(cells[:5]):
        row = {"name": "Gather", "core": "AI_CORE", "calls": 9, "total_us": 9.0, "mean_us": 1.0, "share_pct": 5.0}
        cell.outcome.summary["profiles"][0]["kernels"]["top"].append({**row, "mean_us": 9.0 if not n else 1.0})  # type: ignore[union-attr, index]
    assert found(cells) == [], "four others of eleven"
    assert found(cells[:8]), "four others of seven"


def test_what_is_not_valid_or_has_no_tables_is_left_out() -> None:
    bare = {**sweeps.profile(factor=5.0), "times": None, "kernels": None, "steps": {}}
    cells = [*fleet(), sweeps.valid(sweeps.pending("bare"), [bare]), sweeps.failed(sweeps.pending("dead"))]
    assert found([*cells, sweeps.pending("later")]) == []


def test_an_old_result_of_a_cell_that_is_run_anew_does_not_count() -> None:
    cells = fleet({"ascend01": {"factor": 2.0}})
    assert found(cells)
    assert found([dataclasses.replace(cells[0], state="pending"), *cells[1:]]) == []


@given(st.lists(st.floats(5, 20), min_size=5, max_size=12))
@example([99.5, 99.5, 100.5, 100.5, 110.3])
@settings(max_examples=200, deadline=None)
def test_each_is_held_against_all_others_and_not_against_itself(steps: list[float]) -> None:
    hosts = [f"h{number:02}" for number in range(len(steps))]
    planted = {host: {"factor": 1.0, "step_ms": ms} for host, ms in zip(hosts, steps, strict=True)}
    expected = {}
    for host, ms in zip(hosts, steps, strict=True):
        others = [planted[other]["step_ms"] for other in hosts if other != host]
        median = statistics.median(others)
        mad = statistics.median(abs(other - median) for other in others)
        z = Z_SCALE * (ms - median) / max(mad, MAD_FLOOR * median)
        if ms > RATIO_LIMIT * median and z > Z_LIMIT:
            expected[host] = (median, ms / median, z)
    assert {one.host: (one.median, one.ratio, one.z) for one in found(fleet(planted, hosts))} == expected


@given(st.integers(), st.permutations(FLEET))
@settings(max_examples=30, deadline=None)
def test_the_order_of_hosts_does_not_matter(seed: int, order: list[str]) -> None:
    noise = random.Random(seed)
    cells = {cell.cell.host: cell for cell in fleet({host: {"factor": noise.uniform(1, 1.5)} for host in FLEET})}
    assert found([cells[host] for host in order]) == found([cells[host] for host in FLEET])


@given(st.integers(), st.integers(5, 40))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_two_percent_of_noise_is_nearly_nobody(seed: int, count: int) -> None:
    noise = random.Random(seed)
    hosts = [f"h{number}" for number in range(count)]

    def scattered() -> dict[str, Any]:
        kernels = {name: noise.gauss(1, 0.02) for name, *_ in sweeps.KERNELS}
        return {"kernels": kernels, "step_ms": 10 * noise.gauss(1, 0.02)}

    assert len(found(fleet({host: {"factor": 1.0, **scattered()} for host in hosts}, hosts))) <= 1


@given(st.integers(), st.integers(5, 40), st.floats(1.25, 3.0))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_a_slow_host_is_found_among_noise(seed: int, count: int, factor: float) -> None:
    noise = random.Random(seed)
    hosts = [f"h{number}" for number in range(count)]
    planted = {host: {"factor": noise.gauss(1, 0.02)} for host in hosts}
    planted[noise.choice(hosts)]["factor"] = factor
    slow = max(hosts, key=lambda host: planted[host]["factor"])
    assert slow in [finding.host for finding in found(fleet(planted, hosts))]
