"""Several devices at once: which belong together, in which order, and what cannot be had."""

from __future__ import annotations

import dataclasses
import json

import pytest

from collect_agent.npu.choice import MOST, groups, reasons, refusal
from collect_agent.npu.interpret import interpret
from collect_agent.npu.judge import UsageError, Verdict, Wish, judge, used_limit
from npu_smi_tables import A1, A2, A3, P310, Die, Layout, info

IDLE = (3391, 65536)
BUSY = (30000, 65536)


def verdicts(layout: Layout, *dies: Die) -> tuple[Verdict, ...]:
    text = info(layout, dies, driver="25.5.1" if layout.process else "23.0.2")
    return judge(interpret({"npu_smi": "", "in_container": False, "info": [0, text], "mapping": [0, ""]}))


def a3(busy: set[int] = frozenset(), cards: int = 8) -> tuple[Verdict, ...]:
    """An Atlas A3 server; `busy` are logic ids."""
    dies = [
        Die(npu, chip, 2 * npu + chip, name="Ascend910", memory=BUSY if 2 * npu + chip in busy else IDLE)
        for npu in range(cards)
        for chip in (0, 1)
    ]
    return verdicts(A3, *dies)


def server(layout: Layout, name: str, used: dict[int, int], total: int = 65536) -> tuple[Verdict, ...]:
    """Cards of one chip, by NPU id the MB in use."""
    ddr = (1200, 15170) if layout is A1 else (0, 0)
    return verdicts(layout, *[Die(npu, name=name, ddr=ddr, memory=(mb, total)) for npu, mb in used.items()])


def logic(judged: tuple[Verdict, ...], wish: Wish) -> list[list[int | None]]:
    found = groups(judged, wish)
    assert all(list(group) == sorted(group, key=lambda device: device.logic or 0) for group in found)
    return [[device.logic for device in group] for group in found]


def test_dies_of_one_card_come_before_idler_ones_of_two() -> None:
    dies = [(0, 0, 3400), (0, 1, 3400), (1, 0, 3300), (2, 1, 3300)]
    judged = verdicts(A3, *[Die(npu, chip, 2 * npu + chip, memory=(mb, 65536)) for npu, chip, mb in dies])
    assert logic(judged, Wish(count=2))[:2] == [[0, 1], [2, 5]]


def test_on_a3_neighbouring_cards_are_taken_together() -> None:
    # cards 1, 4 and 5 are wholly free, one die of 3
    free = {2, 3, 6, 8, 9, 10, 11}
    judged = a3(busy=set(range(16)) - free)
    assert logic(judged, Wish(count=4))[0] == [8, 9, 10, 11]
    assert logic(judged, Wish(count=3))[0] == [9, 10, 11]
    assert logic(judged, Wish(count=5))[0] == [6, 8, 9, 10, 11]
    assert logic(judged, Wish(count=2))[:3] == [[10, 11], [8, 9], [2, 3]]


def test_on_310p_duo_the_dies_of_a_card_belong_together() -> None:
    used = {(0, 0): 900, (0, 1): 1500, (96, 0): 900, (96, 1): 1500}
    dies = [Die(npu, chip, at, "310P3", memory=(mb, 44280)) for at, ((npu, chip), mb) in enumerate(used.items())]
    assert logic(verdicts(P310, *dies), Wish(count=2))[:2] == [[2, 3], [0, 1]]


def test_on_910a_the_cards_of_one_hccs_group_belong_together() -> None:
    idlest_apart = {0: 3, 1: 9, 2: 9, 3: 9, 4: 3, 5: 9, 6: 9, 7: 9}
    assert logic(server(A1, "910B", idlest_apart, 32768), Wish(count=2))[:2] == [[4, 7], [4, 6]]
    # only two of each group are free: it has to be both groups
    occupied = {npu: 20000 if npu in (0, 1, 6, 7) else 3 for npu in range(8)}
    assert logic(server(A1, "910ProB", occupied, 32768), Wish(count=4)) == [[2, 3, 4, 5]]
    assert logic(server(A1, "910A", occupied, 32768), Wish(count=2))[:2] == [[4, 5], [2, 3]]


def test_on_a2_all_eight_cards_are_one_group_and_sixteen_are_two() -> None:
    used = dict.fromkeys(range(16), 3391)
    used[0] = used[4] = used[12] = 3350
    assert logic(server(A2, "910B3", {npu: used[npu] for npu in range(8)}), Wish(count=2))[0] == [0, 4]
    assert logic(server(A2, "910B3", used), Wish(count=2))[0] == [0, 4]
    assert logic(server(A2, "910B3", used), Wish(count=3))[0] == [0, 4, 7]


def test_there_are_not_too_many_groups_and_those_apart_are_among_them() -> None:
    found = logic(a3(), Wish(count=3))
    assert len(found) == MOST
    apart: set[int | None] = set()
    for group in found:
        if apart.isdisjoint(group):
            apart.update(group)
    assert len(apart) == 15, "five groups of three that have nothing in common"
    assert logic(a3(), Wish(count=16)) == [list(range(16))]


@pytest.mark.parametrize("names", [("4", "6"), ("logic:4", "6.0"), ("6", "4")])
def test_several_named_devices_are_exactly_those(names: tuple[str, ...]) -> None:
    assert logic(server(A2, "910B3", dict.fromkeys(range(8), 3391)), Wish(names)) == [[4, 6]]


def test_each_name_stands_for_one_device() -> None:
    judged = a3(busy={1})
    assert logic(judged, Wish(("0", "1"))) == [[0, 3], [0, 2]]
    assert logic(judged, Wish(("1", "1"))) == [[2, 3]]
    assert logic(judged, Wish(("1",), count=2)) == [[2, 3]]
    assert logic(judged, Wish(("0",), count=2)) == []


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Wish(("2.0", "logic:4")), "2.0, logic:4 name a device twice"),
        (Wish(("2", "3"), count=3), "3 devices are asked for, and 2 are named"),
        (Wish(("2",), count=3), "3 devices are asked for, and there are 2"),
        (Wish(count=17), "17 devices are asked for, and there are 16"),
        (Wish(count=0), "0 devices are asked for"),
        (Wish(("2", "9")), "there is no NPU '9'"),
    ],
)
def test_what_no_state_of_the_host_can_fulfil(wish: Wish, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        groups(a3(), wish)


def test_too_few_free_devices_give_the_reasons_of_those_that_are_not() -> None:
    judged = server(A2, "910B3", {0: 3391, 1: 30000, 2: 40000})
    wish = Wish(count=2)
    assert groups(judged, wish) == []
    assert reasons(judged, wish) == [
        "NPU 1 chip 0 (logic 1) busy: 30.0 GB used and no visible process",
        "NPU 2 chip 0 (logic 2) busy: 40.0 GB used and no visible process",
    ]
    assert refusal(judged, wish).message.startswith("only 1 of the 2 NPUs asked for are free: NPU 1 chip 0")
    named = refusal(judged, Wish(("0", "2")))
    assert named.message.startswith("the NPUs asked for are not all free: NPU 2 chip 0 (logic 2) busy")
    assert named.remedy == "free at the moment: NPU 0 chip 0 (logic 0)"


def test_a_wish_survives_json() -> None:
    for wish in (Wish(), Wish(("3.1", "logic:7"), 2, "10%", ("Warning",))):
        assert Wish.from_json(json.loads(json.dumps(dataclasses.asdict(wish)))) == wish


@pytest.mark.parametrize(
    ("text", "mb"),
    [("4GB", 4096), ("4096MB", 4096), ("0.5 gb", 512), ("4G", 4096), ("10%", 6553), ("0%", 0), ("100%", 65536)],
)
def test_amounts_of_memory(text: str, mb: int) -> None:
    assert used_limit(text, 65536) == mb


@pytest.mark.parametrize("text", ["", "4", "GB", "4TB", "-1GB", "101%", "4 GB more", "1e3MB", "٣GB"])
def test_what_is_no_amount_of_memory(text: str) -> None:
    with pytest.raises(UsageError, match="no amount of memory"):
        used_limit(text, 65536)
