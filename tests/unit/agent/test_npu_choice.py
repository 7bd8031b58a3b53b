"""Which device is free, why another one is not, and which one is taken."""

from __future__ import annotations

import pytest

from collect_agent.npu.choice import Group, groups, refusal
from collect_agent.npu.device import Device
from collect_agent.npu.interpret import interpret, parse_info
from collect_agent.npu.judge import NO_WISH, UsageError, Verdict, Wish, judge, visible_ids
from npu_smi_tables import A1, A2, A3, A5, P310, Die, Layout, info


def seen(text: str) -> tuple[Device, ...]:
    return interpret({"npu_smi": "npu-smi", "in_container": False, "info": [0, text], "mapping": [0, ""]})


def verdicts(
    layout: Layout, *dies: Die, wish: Wish = NO_WISH, allowed: frozenset[int] | None = None
) -> tuple[Verdict, ...]:
    return judge(seen(info(layout, dies)), wish, allowed)


def ids(found: list[Group]) -> list[list[tuple[int | None, int | None]]]:
    return [[(device.npu, device.chip) for device in group] for group in found]


def reason(die: Die, layout: Layout = A2) -> str:
    (verdict,) = verdicts(layout, die)
    assert verdict.free == verdict.reason.startswith("free: ")
    return verdict.reason


def test_every_verdict_says_why() -> None:
    assert reason(Die(0)) == "free: 3.3 GB used"
    assert reason(Die(0, memory=(2922, 32768))) == "free: 2.9 GB used"
    assert reason(Die(0, processes=((124528, "python3.8", 17400),))) == "busy: pid 124528 python3.8, 17.4 GB"
    assert reason(Die(0, processes=((9, "", 102),))) == "busy: pid 9 (name hidden), 0.1 GB"
    assert reason(Die(0, memory=(29954, 65536))) == "busy: 29.9 GB used and no visible process"
    assert reason(Die(0, util=1)) == "busy: 1 % utilisation and no visible process"
    assert reason(Die(0, health="Alarm")) == "unhealthy: Alarm"
    assert reason(Die(0, health="Warning")) == "unhealthy: Warning"
    assert reason(Die(0, memory=(0, 0)), A5) == "unhealthy: no memory, the device does not answer"
    assert reason(Die(0, util="NA")).startswith("unknown: ")
    assert reason(Die(0, memory=("NA", 65536))).startswith("unknown: ")


def test_a_long_list_of_processes_is_shortened() -> None:
    rows = tuple((pid, "w", 100) for pid in range(1, 9))
    assert reason(Die(0, processes=rows)).endswith("; 5 more")


def test_a_hidden_process_shows_against_the_idlest_chip_of_its_kind() -> None:
    quiet, hidden, other = Die(0), Die(1, memory=(5100, 65536)), Die(2, name="910B4", memory=(4900, 65536))
    assert [v.free for v in verdicts(A2, quiet, hidden, other)] == [True, False, True]
    assert "3.3 GB on the idlest of its kind" in verdicts(A2, quiet, hidden)[1].reason


def test_a_dead_device_is_no_measure_of_idleness() -> None:
    assert [v.free for v in verdicts(A2, Die(0, memory=(0, 0)), Die(1))] == [False, True]


def test_idle_dies_of_one_card_may_differ() -> None:
    assert all(v.free for v in verdicts(A3, Die(0, 0, 0, memory=(3430, 65536)), Die(0, 1, 1, memory=(2874, 65536))))


def test_utilisation_alone_never_makes_a_device_free() -> None:
    # a served model between two requests, and any device while a profiler runs, show 0 %
    assert not verdicts(A2, Die(0, util=0, memory=(62900, 65536)))[0].free


def test_910a_is_judged_by_its_hbm_not_by_its_ddr() -> None:
    (verdict,) = judge(seen(info(A1, [Die(0, ddr=(2904, 13553), memory=(4, 32768))], driver="23.0.2")))
    assert verdict.reason == "free: 0.0 GB used"


@pytest.mark.parametrize(
    ("name", "driver", "free"),
    [("310P3", "22.0.4", True), ("310P3", "24.1.0", False), ("310P3", "", False), ("310B4", "24.1.0", True)],
)
def test_a_missing_table_of_processes_is_a_doubt_where_npu_smi_prints_one(name: str, driver: str, free: bool) -> None:
    text = info(P310, [Die(0, name=name, memory=(900, 32768))], driver=driver).split("| NPU     Chip")[0]
    (verdict,) = judge(seen(text))
    assert verdict.free == free
    assert free or verdict.reason == "unknown: the output of npu-smi ends before the processes"


def test_a_cut_table_makes_nothing_free() -> None:
    text = info(A2, [Die(0), Die(1)])
    cut = text[: text.index("| NPU     Chip")]
    assert not any(v.free for v in judge(seen(cut)))


def test_a_device_without_a_logic_id_is_not_used() -> None:
    lost = info(A2, [Die(0), Die(1)]).replace("| 0     910B3", "| 0#    910B3")
    (device,) = interpret({"npu_smi": "npu-smi", "in_container": True, "info": [0, lost], "mapping": [0, ""]})
    (verdict,) = judge([device])
    assert verdict.reason == "unknown: npu-smi does not tell its logic id"


def test_a_table_without_logic_ids_may_be_judged_and_gives_nothing_to_take() -> None:
    judged = judge(parse_info(info(A2, [Die(0)])).devices)
    assert judged[0].free
    assert groups(judged, NO_WISH) == []


def test_an_outer_ascend_rt_visible_devices_is_respected() -> None:
    judged = verdicts(A2, Die(1), Die(2), Die(3), allowed=visible_ids("2,3"))
    assert [v.free for v in judged] == [False, True, True]
    assert judged[0].reason.startswith("not allowed: outside ASCEND_RT_VISIBLE_DEVICES=2,3")


@pytest.mark.parametrize(
    ("value", "ids"),
    [(None, None), ("", set()), ("3", {3}), ("2,3", {2, 3}), ("1, 2,3", {1}), ("0-3", {0}), ("4,x", {4}), ("x", set())],
)
def test_the_variable_is_read_up_to_the_first_foreign_character(value: str | None, ids: set[int] | None) -> None:
    assert visible_ids(value) == ids


def test_the_least_used_device_goes_first_and_the_highest_id_among_equals() -> None:
    judged = verdicts(A2, Die(0), Die(1, memory=(3100, 65536)), Die(2), Die(3, util=5))
    assert ids(groups(judged, NO_WISH)) == [[(1, 0)], [(2, 0)], [(0, 0)]]
    assert ids(groups(verdicts(A3, Die(0, 0, 0), Die(0, 1, 1)), NO_WISH)) == [[(0, 1)], [(0, 0)]]


@pytest.mark.parametrize(("wanted", "logic"), [("3", [7, 6]), ("3.0", [6]), ("3.1", [7]), ("logic:6", [6])])
def test_a_device_is_wanted_by_npu_chip_or_logic_id(wanted: str, logic: list[int]) -> None:
    dies = [Die(0, 0, 0), Die(0, 1, 1), Die(3, 0, 6), Die(3, 1, 7)]
    assert [device.logic for (device,) in groups(verdicts(A3, *dies), Wish((wanted,)))] == logic


def test_wanting_an_npu_takes_the_dies_of_it_that_are_free() -> None:
    busy = Die(3, 1, 7, processes=((4711, "python", 9000),))
    assert ids(groups(verdicts(A3, Die(3, 0, 6), busy), Wish(("3",)))) == [[(3, 0)]]


def test_no_free_device_names_the_reason_of_every_one() -> None:
    judged = verdicts(A2, Die(0, health="Alarm"), Die(4, memory=(30000, 65536)))
    assert groups(judged, NO_WISH) == []
    message = refusal(judged, NO_WISH).message
    assert "NPU 0 chip 0 (logic 0) unhealthy: Alarm" in message
    assert "NPU 4 chip 0 (logic 4) busy: 30.0 GB used" in message


def test_a_wanted_device_that_is_busy_names_the_free_ones() -> None:
    judged = verdicts(A2, Die(0), Die(1, util=80))
    assert groups(judged, Wish(("1",))) == []
    refused = refusal(judged, Wish(("1",)))
    assert "NPU 1 chip 0" in refused.message
    assert "NPU 0 chip 0 (logic 0)" in refused.remedy


@pytest.mark.parametrize("wanted", ["9", "0.1", "logic:9"])
def test_an_unknown_device_lists_what_is_there(wanted: str) -> None:
    with pytest.raises(UsageError) as raised:
        groups(verdicts(A2, Die(0), Die(4)), Wish((wanted,)))
    assert "NPU 4 chip 0 (logic 4)" in raised.value.remedy


@pytest.mark.parametrize("wanted", ["", "npu3", "-1", "1,2", "3.", "logic:", "٣"])
def test_a_device_that_cannot_be_read_is_a_usage_error(wanted: str) -> None:
    with pytest.raises(UsageError, match="does not name a device"):
        groups(verdicts(A2, Die(0)), Wish((wanted,)))
