"""Who is on the device: ours or strangers, also where a container shows other pids than its own."""

from __future__ import annotations

from typing import Any

import pytest

from collect_agent.npu import presence
from collect_agent.npu.device import Device, Process

HELD = [{"logic": 0, "used_mb": 3300}]
STRANGER = {"pid": 4711, "name": "python", "memory_mb": 900, "label": "NPU 0 chip 0 (logic 0)"}


def row(pid: int, container_pid: Any = None) -> Process:
    return Process(pid, "python", 900, container_pid)


def device(logic: int, *rows: Process, used_mb: int = 4200, doubt: str = "") -> Device:
    return Device(npu=logic, chip=0, logic=logic, memory_used_mb=used_mb, processes=rows, doubt=doubt)


def moment(when: str, own: set[int], *devices: Device, container: bool = False) -> dict[str, Any]:
    return {"when": when, "own": own, "in_container": container, "devices": devices}


def judged(*moments: dict[str, Any], allow_shared: bool = False) -> dict[str, Any]:
    return presence.check(presence.tell(moments, HELD), allow_shared=allow_shared)


def test_ours_alone_is_the_proof() -> None:
    both = [moment("loaded", {10}, device(0, row(10))), moment("recorded", {10}, device(0, row(10)))]
    assert [m["own"] for m in presence.tell(both, HELD)] == [[10], [10]]
    assert judged(*both)["verdict"] == "pass"


@pytest.mark.parametrize(("allow", "verdict"), [(False, "fail"), (True, "warn")])
def test_a_stranger_fails_the_check_unless_allowed(allow: bool, verdict: str) -> None:
    loaded, recorded = (
        moment("loaded", {10}, device(0, row(10))),
        moment("recorded", {10}, device(0, row(10), row(4711))),
    )
    assert presence.tell([loaded, recorded], HELD)[1]["strangers"] == [STRANGER]
    check = judged(loaded, recorded, allow_shared=allow)
    assert (check["id"], check["verdict"]) == ("device-shared", verdict)
    assert "pid 4711 python on NPU 0" in check["message"]


def test_a_stranger_on_another_device_is_none_of_our_business() -> None:
    assert judged(moment("loaded", {10}, device(0, row(10)), device(1, row(4711))))["verdict"] == "pass"


def test_our_process_on_another_device_is_never_accepted() -> None:
    check = judged(moment("loaded", {10}, device(0), device(1, row(10))), allow_shared=True)
    assert check["verdict"] == "fail"
    assert "pid 10 on NPU 1" in check["message"]


def test_our_process_on_no_device_is_no_proof() -> None:
    assert judged(moment("loaded", {10}, device(0)))["verdict"] == "fail"
    assert judged(moment("loaded", {10}, device(0, doubt="there is no process table")))["verdict"] == "pass"


def test_a_container_may_show_the_hosts_pids() -> None:
    """Ours is 10 in here and 31000 out there; what comes after our load is a stranger all the same."""
    loaded = moment("loaded", {10}, device(0, row(31000)), container=True)
    recorded = moment("recorded", {10}, device(0, row(31000), row(4711)), container=True)
    assert presence.tell([loaded, recorded], HELD)[0]["own"] == [31000]
    assert presence.tell([loaded, recorded], HELD)[1]["strangers"] == [STRANGER]
    assert "as far as can be seen from here" in judged(loaded)["message"]


def test_the_pid_in_the_container_counts_in_a_container_only() -> None:
    rows = device(0, row(31000, container_pid=10))
    assert presence.tell([moment("loaded", {10}, rows, container=True)], HELD)[0]["own"] == [31000]
    assert presence.tell([moment("loaded", {10}, rows)], HELD)[0]["strangers"] != []


def test_memory_that_nobody_explains_is_a_warning() -> None:
    loaded = moment("loaded", {10}, device(0, row(10), used_mb=3300 + 900 + 30000))
    assert judged(loaded)["verdict"] == "warn"
    assert "30.0 GB" in judged(loaded)["message"]


def test_not_knowing_is_a_warning() -> None:
    assert judged({"when": "loaded", "error": "x"})["verdict"] == "warn"
    assert judged()["verdict"] == "warn"
