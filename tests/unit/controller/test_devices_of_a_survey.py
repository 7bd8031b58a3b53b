"""Saved texts of npu-smi, and what is shown of the devices of one host or many."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from collect_agent.npu.judge import judge
from collect_remote import errors
from collect_remote.cli import device_table
from collect_remote.cli.main import main
from collect_remote.npus import saved
from collect_remote.npus.fleet import Answer, worst
from collect_remote.npus.judged import Wish, out_of_reach
from npu_smi_tables import A2, A3, A5, MAPPING, P310, Die, dead_slot, info, listing, mapping, proc_mem, usages

BUSY = Die(3, 1, 7, name="Ascend910", processes=((4711, "VLLMEngineCore", 9000),), memory=(12400, 65536))


def test_the_document_is_what_the_readme_says() -> None:
    verdicts = judge(saved.read(info(A3, [Die(3, 0, 6, name="Ascend910", power="-"), BUSY])))
    refused = errors.from_agent({"kind": "NpuSmiDriverError", "message": "m", "remedy": "r"})
    document = device_table.document([Answer("a", verdicts), Answer("b", error=refused)])
    assert document == {
        "hosts": [
            {
                "host": "a",
                "error": None,
                "devices": [
                    {
                        "npu_id": 3,
                        "chip_id": 0,
                        "logic_id": None,
                        "phy_id": 6,
                        "name": "Ascend910",
                        "health": "OK",
                        "utilization_pct": 0,
                        "memory_used_mb": 3391,
                        "memory_total_mb": 65536,
                        "processes": [],
                        "free": True,
                        "why": "free: 3.3 GB used; chip 1 of the same card is busy: pid 4711 VLLMEngineCore, 9.0 GB",
                    },
                    {
                        "npu_id": 3,
                        "chip_id": 1,
                        "logic_id": None,
                        "phy_id": 7,
                        "name": "Ascend910",
                        "health": "OK",
                        "utilization_pct": 0,
                        "memory_used_mb": 12400,
                        "memory_total_mb": 65536,
                        "processes": [{"pid": 4711, "name": "VLLMEngineCore", "memory_mb": 9000}],
                        "free": False,
                        "why": "busy: pid 4711 VLLMEngineCore, 9.0 GB",
                    },
                ],
            },
            {
                "host": "b",
                "error": {"kind": "NpuSmiDriverError", "message": "m", "remedy": "r", "entry": "host-unfit"},
                "devices": [],
            },
        ]
    }


def test_the_table_for_people() -> None:
    text = device_table.text(
        [Answer("a", judge(saved.read(info(A3, [BUSY])))), Answer("b", error=errors.AuthError("m"))]
    )
    assert text.splitlines() == [
        "a: 0 of 1 free",
        "  NPU  CHIP  LOGIC  NAME       HEALTH  UTIL  MEMORY (MB)",
        "  3    1     -      Ascend910  OK      0 %   12400 / 65536  busy: pid 4711 VLLMEngineCore, 9.0 GB",
    ]


def test_the_worst_answer_decides() -> None:
    answers = [Answer("a"), Answer("b", error=errors.AuthError("m")), Answer("c", error=errors.EnvironmentUnfit("m"))]
    assert [worst(answers[:n]) for n in (1, 2, 3)] == [0, 3, 5]


def known(text: str, mapping_text: str | None = None) -> list[tuple[int | None, int | None, int | None]]:
    return [(device.npu, device.chip, device.logic) for device in saved.read(text, mapping_text)]


def test_a_saved_table_has_the_logic_ids_that_it_or_its_map_tells() -> None:
    assert known(info(A2, [Die(1), Die(7)])) == [(1, 0, None), (7, 0, None)]
    assert known(info(P310, [Die(32768, 1, 5)])) == [(32768, 1, 5)]
    told = mapping([("1", "0", "0", "Ascend 910B3"), ("7", "0", "1", "Ascend 910B3")], MAPPING)
    assert known(info(A2, [Die(1), Die(7)]), told) == [(1, 0, 0), (7, 0, 1)]


def test_a_map_that_is_none_is_refused() -> None:
    with pytest.raises(errors.UsageError, match="npu-smi info -m"):
        saved.read(info(A2, [Die(0)]), info(A2, [Die(0)]))


def test_the_other_forms_tell_what_they_know_and_free_nothing() -> None:
    told = mapping([("4", "0", "2", "Ascend 910B3"), ("4", "1", "-", "Mcu")], MAPPING)
    assert known(told) == [(4, 0, 2)]
    assert known(listing([Die(0), Die(96, 0), Die(96, 1)], "Card Count", "Atlas 300I Duo")) == [
        (0, 0, None),
        (96, 0, None),
        (96, 1, None),
    ]
    (measured,) = judge(saved.read(usages(A2, 5, [Die(5, memory=(3277, 65536))], 1)))
    assert (measured.device.memory_total_mb, measured.device.memory_used_mb, measured.free) == (65536, None, False)
    assert "5 % of its memory" in measured.why
    (held,) = judge(saved.read(proc_mem(A5, 2, [Die(2, processes=((395864, "", 5118),))])))
    assert (held.device.chip, held.reason) == (None, "busy: pid 395864 (name hidden), 5.1 GB")
    (dead,) = judge(saved.read(dead_slot(3, "usages")))
    assert (dead.device.npu, dead.device.chip, dead.reason) == (3, 0, "unknown: Failed to query npu chip: 0 info.")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("dcmi module initialize failed. ret is -8005\n", "NpuSmiDriverError"),
        ("dcmi model initialized failed, because the device is used. ret is -8020\n", "NpuSmiInUseError"),
        ("npu get board type failed. ret is -9005\n", "NpuSmiBoardTypeError"),
        ("bash: line 1: npu-smi: command not found\n", "NpuSmiMissingError"),
        ("| NPU | Temperature(C) |\n| 0 | 45 |\n", "NpuSmiFormatError"),
    ],
)
def test_a_saved_error_is_named_and_exits_with_5(
    text: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "saved.txt"
    path.write_text(text)
    assert main(["devices", "--from-file", str(path), "--json"]) == 5
    (answer,) = json.loads(capsys.readouterr().out)["hosts"]
    assert (answer["host"], answer["devices"], answer["error"]["kind"]) == (str(path), [], kind)
    assert answer["error"]["message"]
    assert answer["error"]["remedy"]
    assert main(["devices", "--from-file", str(path)]) == 5
    assert f"error: {answer['error']['message']}" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_saved_text_is_read_in_the_encoding_that_it_tells(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "saved.txt").write_text(info(A2, [Die(1)]), encoding=encoding)
    assert known(saved.load(tmp_path / "saved.txt")) == [(1, 0, None)]


def test_what_is_no_saved_text_is_refused_unread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(saved.MOST_BYTES + 1)
    refused = {tmp_path / "pipe": "no regular file", tmp_path: "no regular file", tmp_path / "large": "larger than"}
    for path, words in refused.items():
        assert main(["devices", "--from-file", str(path)]) == 2
        assert words in capsys.readouterr().err


def test_a_preset_choice_that_leaves_too_few_is_out_of_reach() -> None:
    taken = Die(1, processes=((4711, "python", 9000),))
    chips = mapping([(str(n), "0", str(n), "X") for n in range(3)], MAPPING)
    judged = judge(saved.read(info(A2, [Die(0), taken, Die(2)]), chips), allowed=[1])
    assert not out_of_reach(judged, Wish(), "1"), "its user may release it"
    assert not out_of_reach(judged, Wish(("1",)), "1")
    assert not out_of_reach(judged, Wish(("0",)), None)
    assert out_of_reach(judged, Wish(("0",)), "1")
    assert out_of_reach(judged, Wish(count=2), "1")
    assert out_of_reach(judged, Wish(), "")


def test_what_counts_as_free_can_be_widened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "saved.txt"
    path.write_text(info(P310, [Die(0, name="310B4", health="Alarm", memory=(3628, 15609))], driver="23.0.0"))

    def verdict(*options: str) -> dict[str, Any]:
        assert main(["devices", "--from-file", str(path), "--json", *options]) == 0
        device: dict[str, Any] = json.loads(capsys.readouterr().out)["hosts"][0]["devices"][0]
        return device

    assert verdict()["why"] == "unhealthy: Alarm"
    assert verdict("--allow-health", "Alarm")["why"] == "busy: 3.6 GB used and no visible process"
    assert verdict("--allow-health", "Alarm", "--max-used", "20%")["why"].endswith("no visible process, more than 20%")
    widened = verdict("--allow-health", "Alarm", "--max-used", "4GB")
    assert widened["free"]
    assert widened["why"] == "free: 3.6 GB used; its health is Alarm, as allowed"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name hosts, or a saved text"),
        (["--host", "a", "--from-file", "x"], "name hosts, or a saved text"),
        (["--host", "a", "--map-file", "x"], "--map-file goes with --from-file"),
        (["--from-file", "x", "--watch"], "does not change"),
        (["--from-file", "/nowhere/x"], "cannot read /nowhere/x"),
        (["--from-file", "-"], "standard input is not read"),
        (["--host", "a", "--watch", "49h"], "'49h' is too long: at most 48h"),
        (["--from-file", "x", "--max-used", "much"], "'much' is no amount of memory"),
        (["--from-file", "x", "--max-used", "101%"], "'101%' is no amount of memory"),
        (["--from-file", "x", "--allow-health", "Fine"], "invalid choice"),
    ],
)
def test_what_cannot_be_asked_for(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", *arguments]) == 2
    assert words in capsys.readouterr().err
