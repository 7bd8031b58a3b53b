"""What a result comes to: held against the csv module and exact decimals over the same files."""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import results
from collect_remote import Profile, Request, collect, load_inventory
from collect_remote.errors import CollectError, ProfileInvalid
from collect_remote.sweeps import summary
from collect_remote.sweeps.summary import MANY, SHOWN, summarize, versions
from harness import Tool
from simhost import SimHost

HEADER = "Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us)\n"


def of(path: Path) -> list[dict[str, Any]]:
    document = summarize(Profile.at(path))
    assert json.loads(json.dumps(document)) == document, "plain data"
    profiles: list[dict[str, Any]] = document["profiles"]
    return profiles


def with_manifest(path: Path, **changes: Any) -> Profile:
    """The result, with a manifest as no agent of ours writes it."""
    profile = Profile.at(path)
    return dataclasses.replace(profile, manifest={**profile.manifest, **changes})


def test_what_a_host_says_of_releases_and_steps_is_text_and_finite(tmp_path: Path) -> None:
    path = results.publish(tmp_path)
    told = versions(with_manifest(path, versions={"cann": ["8"], "torch": "2\x1b[2J", "torch_npu": None}))
    assert told == {"cann": None, "torch": "2 [2J", "torch_npu": None}
    kinds = [f"kind {n}" for n in range(50_000)] + ["decode", "=cmd()"]
    window = {"step_seconds": [0.5] * len(kinds), "step_kinds": kinds}
    started = time.monotonic()
    (found,) = summarize(with_manifest(path, phases={"decode": window}))["profiles"]
    assert time.monotonic() - started < 5
    assert {kind: steps["count"] for kind, steps in found["steps"].items()} == {"decode": 1}


def kernels(text: str) -> dict[str, Any]:
    import io

    found: dict[str, Any] = summary.kernel_times(io.BytesIO((HEADER + text).encode()))  # type: ignore[arg-type]
    return found


def by_hand(profile: Profile, phase: str, rank: int) -> tuple[dict[str, Decimal], dict[str, int], dict[str, Decimal]]:
    """({kernel: us}, {kernel: calls}, {part of the steps: us}); collectives under their type."""
    total: dict[str, Decimal] = defaultdict(Decimal)
    calls: dict[str, int] = defaultdict(int)
    for row in profile.rows("kernel_details.csv", phase=phase, rank=rank):
        name = row["Type"] if row["Name"].startswith("hcom_") else row["Name"]
        total[name] += Decimal(row["Duration(us)"])
        calls[name] += 1
    parts: dict[str, Decimal] = defaultdict(Decimal)
    for row in profile.rows("step_trace_time.csv", phase=phase, rank=rank):
        for part in ("Computing", "Communication(Not Overlapped)", "Free"):
            parts[part] += Decimal(row[part])
    return total, calls, parts


def hold_against_its_files(path: Path) -> list[dict[str, Any]]:
    profile, found = Profile.at(path), of(path)
    assert len(found) == len(profile.manifest["profiles"])
    for one in found:
        total, calls, parts = by_hand(profile, one["phase"], one["rank"])
        table = one["kernels"]
        assert table["total_us"] == pytest.approx(float(sum(total.values())))
        assert table["calls"] == sum(calls.values())
        listed = {kernel["name"]: kernel for kernel in table["top"]}
        assert list(listed) == sorted(total, key=lambda name: (-total[name], name))[:SHOWN]
        for name, kernel in listed.items():
            assert (kernel["total_us"], kernel["calls"]) == (pytest.approx(float(total[name])), calls[name])
            assert kernel["mean_us"] == pytest.approx(float(total[name] / calls[name]), abs=0.001)
        whole = sum(parts.values())
        for key, part in zip(("computing", "communication", "free"), parts.values(), strict=True):
            assert one["times"][f"{key}_us"] == pytest.approx(float(part), abs=0.001)
            assert one["times"][f"{key}_pct"] == pytest.approx(float(100 * part / whole), abs=0.001)
    return found


@pytest.mark.parametrize(
    ("phase", "ranks", "changes"),
    [
        ("decode", 1, {}),
        ("decode", 1, {"chip": "910A", "device_column": False}),
        ("prefill", 1, {"chip": "950"}),
        ("separate", 2, {"collectives": True}),
    ],
)
def test_the_figures_are_those_of_the_files(tmp_path: Path, phase: str, ranks: int, changes: dict[str, Any]) -> None:
    directory = results.publish(tmp_path, phase=phase, ranks=ranks, **changes)
    found = hold_against_its_files(directory)
    windows = ["decode", "prefill"] if phase == "separate" else [phase]
    assert [(one["phase"], one["rank"]) for one in found] == [(name, rank) for name in windows for rank in range(ranks)]
    assert {one["chip"] for one in found} == {profile["chip"] for profile in Profile.at(directory).manifest["profiles"]}
    assert [one["device"] for one in found] == [f"NPU 3 chip {one['rank']} (logic {6 + one['rank']})" for one in found]
    assert {one["device_name"] for one in found} == {"910B3"}


def test_collectives_are_one_kernel_whatever_numbers_a_run_gave_them(tmp_path: Path) -> None:
    (one, _) = of(results.publish(tmp_path, ranks=2, collectives=True))
    assert one["times"]["communication_pct"] > 0
    (collective,) = [kernel for kernel in one["kernels"]["top"] if kernel["core"] == "HCCL"]
    assert collective["name"] == "hcom_allReduce_"
    text = "hcom_allReduce__586_0_1,hcom_allReduce_,HCCL,1,2,0\nhcom_allReduce__868_1_1@x,N/A,N/A,1,3,0\n"
    assert [(kernel["name"], kernel["calls"]) for kernel in kernels(text)["top"]] == [("hcom_allReduce_", 2)]
    assert [kernel["name"] for kernel in kernels("Conv2D_7,Conv2D,AI_CORE,1,2,0\n")["top"]] == ["Conv2D_7"]


def test_steps_are_those_of_the_rank_and_of_their_kind(tmp_path: Path) -> None:
    directory = results.publish(tmp_path, phase="both", ranks=2)
    beside = json.loads((directory / "manifest.json").read_text())
    window = beside["phases"]["both"]
    window["step_seconds"] = [0.5, *(0.010 + n / 1000 for n in range(len(window["step_seconds"]) - 1))]
    window["ranks"]["1"]["step_seconds"] = [2 * seconds for seconds in window["step_seconds"]]
    (directory / "manifest.json").write_text(json.dumps(beside))
    first, second = of(directory)
    assert list(first["steps"]) == list(dict.fromkeys(window["step_kinds"])) == ["prefill", "decode"]
    assert first["steps"]["prefill"] == dict.fromkeys(("median_ms", "min_ms", "max_ms"), 500.0) | {
        "count": 1,
        "mad_ms": 0.0,
    }
    decode = [1e3 * seconds for seconds in window["step_seconds"][1:]]
    middle = statistics.median(decode)
    assert first["steps"]["decode"]["median_ms"] == pytest.approx(middle)
    assert first["steps"]["decode"]["mad_ms"] == pytest.approx(statistics.median(abs(ms - middle) for ms in decode))
    assert second["steps"]["decode"]["median_ms"] == pytest.approx(2 * middle)
    assert second["steps"]["decode"]["count"] == len(decode)


@pytest.mark.parametrize(
    ("changes", "has"),
    [
        ({"level": "Level0"}, {"times": True, "kernels": True}),
        ({"export": ("db",)}, {"times": False, "kernels": False}),
        ({"metrics": "AiCoreNone"}, {"times": True, "kernels": True}),
        ({"scheduled": False}, {"times": True, "kernels": True}),
    ],
    ids=str,
)
def test_what_is_not_there_by_level_or_form_is_null(
    tmp_path: Path, changes: dict[str, Any], has: dict[str, bool]
) -> None:
    (one,) = of(results.publish(tmp_path, **changes))
    assert {name: one[name] is not None for name in has} == has
    assert one["steps"]["decode"]["count"] == 10


def test_a_profile_without_kernels_has_none(tmp_path: Path) -> None:
    directory = results.made(tmp_path / "r", {"trace_view.json": b"[]"}, devices=[], phases={})
    beside = json.loads((directory / "manifest.json").read_text())
    beside["profiles"][0]["chip"] = None
    (directory / "manifest.json").write_text(json.dumps(beside))
    (one,) = of(directory)
    nothing = ("chip", "device", "device_name", "times", "kernels")
    assert one == {
        **dict.fromkeys(nothing),
        "steps": {},
        "rank": 0,
        "phase": "decode",
        "directory": beside["profiles"][0]["directory"],
    }


def test_the_largest_are_shown_and_the_rest_is_summed() -> None:
    found = kernels("".join(f"k{n},T,AI_CORE,1,{n}.5,0\n" * 2 for n in range(30)))
    assert [kernel["name"] for kernel in found["top"]] == [f"k{n}" for n in range(29, 29 - SHOWN, -1)]
    assert found["others"] == {"calls": 20, "total_us": 2 * sum(n + 0.5 for n in range(10))}
    assert found["top"][0] == {
        "name": "k29",
        "core": "AI_CORE",
        "calls": 2,
        "total_us": 59.0,
        "mean_us": 29.5,
        "share_pct": round(100 * 59 / found["total_us"], 3),
    }


def test_sums_are_exact() -> None:
    (kernel,) = kernels("k,T,AI_CORE,1736408883840600.069\t,0.1,0\n" * 10_001)["top"]
    assert (kernel["total_us"], kernel["mean_us"]) == (1000.1, 0.1)


def test_names_without_end_take_no_memory() -> None:
    class Endless:
        """A table of a million different kernels, made as it is read."""

        def __init__(self) -> None:
            self._next, self._rest = 0, HEADER.encode()

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            while len(self._rest) < len(buffer) and self._next < 60_000:
                self._rest += b"".join(b"node_%d,T,AI_CORE,1,2,0\n" % (self._next + n) for n in range(1000))
                self._next += 1000
            size = min(len(buffer), len(self._rest))
            buffer[:size], self._rest = self._rest[:size], self._rest[size:]
            return size

    tracemalloc.start()
    try:
        found = summary.kernel_times(Endless())  # type: ignore[arg-type]
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert found["calls"] == 60_000
    assert found["others"] == {"calls": 60_000 - SHOWN, "total_us": 2.0 * (60_000 - SHOWN)}
    assert MANY < 60_000


def test_a_name_is_fit_for_a_terminal() -> None:
    (kernel,) = kernels('"a\x1b[2Jb",T,AI_CORE,1,2,0\n')["top"]
    assert kernel["name"] == "a [2Jb"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("kernel_details.csv", b"Name,Type\na,b\n", "lacks one of the columns"),
        ("kernel_details.csv", HEADER.encode() + b"k,T,AI_CORE,1,long,0\n", "holds 'long'"),
        ("kernel_details.csv", HEADER.encode() + b"k,T,AI_CORE,1,2,0", "ends inside a line"),
        ("step_trace_time.csv", b"Step,Computing\n1,2\n", "has no column"),
    ],
)
def test_a_table_that_is_none_is_a_damaged_result(tmp_path: Path, name: str, text: bytes, message: str) -> None:
    refused(results.made(tmp_path / "r", {name: text}, devices=[], phases={}), message)


def refused(directory: Path, message: str) -> None:
    beside = json.loads((directory / "manifest.json").read_text())
    for one in beside["profiles"]:
        one.setdefault("chip", None)
    (directory / "manifest.json").write_text(json.dumps(beside))
    with pytest.raises(ProfileInvalid, match=message) as caught:
        summarize(Profile.at(directory))
    assert caught.value.remedy


def test_another_file_than_the_manifest_lists(tmp_path: Path) -> None:
    directory = results.publish(tmp_path)
    beside = json.loads((directory / "manifest.json").read_text())
    for file in beside["files"]:
        if file["path"].endswith("/kernel_details.csv"):
            file["sha256"] = "0" * 64
    (directory / "manifest.json").write_text(json.dumps(beside))
    refused(directory, "is not what its manifest lists")


def test_a_file_that_the_archive_lacks(tmp_path: Path) -> None:
    directory = results.publish(tmp_path)
    text = (directory / "manifest.json").read_text().replace("trace_view.json", "x/kernel_details.csv")
    beside = json.loads(text)
    start = f"profile_l1/{beside['profiles'][0]['directory']}/ASCEND_PROFILER_OUTPUT/"
    beside["files"] = [{**file, "path": start + "step_trace_time.csv"} for file in beside["files"][:1]]
    beside["profiles"][0]["directory"] = "decode/another"
    beside["files"][0]["path"] = "profile_l1/decode/another/ASCEND_PROFILER_OUTPUT/step_trace_time.csv"
    (directory / "manifest.json").write_text(json.dumps(beside))
    refused(directory, "has no profile_l1/decode/another/.*, which its manifest lists")


@pytest.mark.parametrize(
    "change",
    [
        {"devices": [{"label": 7, "name": "x"}]},
        {"phases": {"decode": {"step_seconds": ["long"], "step_kinds": ["decode"]}}},
        {"phases": {"decode": {"step_seconds": [1.0]}}},
        {"phases": []},
        {"devices": None},
    ],
    ids=str,
)
def test_a_manifest_that_is_not_as_it_was_written(tmp_path: Path, change: dict[str, Any]) -> None:
    directory = results.publish(tmp_path)
    beside = json.loads((directory / "manifest.json").read_text())
    (directory / "manifest.json").write_text(json.dumps({**beside, **change}))
    refused(directory, "is not as it was written: its ")


def test_one_pass_over_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from collect_remote.results import member

    walks = []
    walk = member.walk
    monkeypatch.setattr(member, "walk", lambda path: walks.append(path) or walk(path))
    of(results.publish(tmp_path, phase="separate", ranks=2))
    assert len(walks) == 1


def test_a_result_of_a_host(tool: Tool, host: Callable[..., SimHost], monkeypatch: pytest.MonkeyPatch) -> None:
    tool.inventory(host())
    monkeypatch.chdir(tool.directory)
    started = time.time()
    profile = collect(
        Request(host="ascend01", model="llama", phase="both", steps=5),
        load_inventory(Path("inventory.yaml")).host("ascend01"),
    )
    (one,) = hold_against_its_files(profile.directory)
    assert list(one["steps"]) == ["prefill", "decode"]
    assert 0 < one["steps"]["decode"]["median_ms"] < 1e3 * (time.time() - started)
    assert one["kernels"]["top"][0]["share_pct"] > 0
    assert one["device_name"]


def test_the_error_of_a_damaged_archive_is_that_of_profile(tmp_path: Path) -> None:
    directory = results.publish(tmp_path)
    archive = directory / "profile_l1.tar.gz"
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 0xFF
    archive.write_bytes(data)
    with pytest.raises(CollectError):
        summarize(Profile.at(directory))
