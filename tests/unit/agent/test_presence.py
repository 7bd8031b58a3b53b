"""Who is on the device: ours or strangers, also where a container shows other pids than its own."""

from __future__ import annotations

from typing import Any

import pytest

from collect_agent import presence
from collect_agent.npu import Process

STRANGER = {"pid": 4711, "name": "python", "memory_mb": 900, "label": "NPU 0"}


def row(pid: int, container_pid: Any = None) -> tuple[str, Process]:
    return "NPU 0", Process(pid, "python", 900, container_pid)


def moment(when: str, own: tuple[int, ...], *rows: tuple[str, Process], container: bool = False) -> dict[str, Any]:
    return {"when": when, "own": set(own), "foreign_pids": container, "rows": list(rows)}


def test_ours_and_strangers_are_told_apart() -> None:
    loaded, recorded = presence.tell([moment("loaded", (10,), row(10)), moment("recorded", (10,), row(10), row(4711))])
    assert loaded == {"when": "loaded", "own": [10], "strangers": []}
    assert recorded == {"when": "recorded", "own": [10], "strangers": [STRANGER]}


def test_ours_may_have_left_before_the_last_look() -> None:
    _, recorded = presence.tell([moment("loaded", (10,), row(10)), moment("recorded", (), row(4711), container=True)])
    assert recorded["strangers"] == [STRANGER]


def test_a_container_may_show_the_hosts_pids() -> None:
    """Ours is 10 in here and 31000 out there; what comes after our load is a stranger all the same."""
    moments = [
        moment("loaded", (10,), row(31000), container=True),
        moment("recorded", (10,), row(31000), row(4711), container=True),
    ]
    loaded, recorded = presence.tell(moments)
    assert (loaded["own"], loaded["strangers"]) == ([31000], [])
    assert recorded["strangers"] == [STRANGER]


def test_the_pid_in_the_container_counts_where_it_is_shown() -> None:
    (loaded,) = presence.tell([moment("loaded", (10,), row(31000, container_pid=10), row(4711), container=True)])
    assert loaded["own"] == [31000]
    assert loaded["strangers"] == [STRANGER]


def test_on_bare_metal_nothing_is_taken_for_ours() -> None:
    (loaded,) = presence.tell([moment("loaded", (10,), row(4711))])
    assert loaded["strangers"] == [STRANGER]


@pytest.mark.parametrize(("allow", "verdict"), [(False, "fail"), (True, "warn")])
def test_a_stranger_fails_the_check_unless_allowed(allow: bool, verdict: str) -> None:
    seen = [{"when": "recorded", "own": [10], "strangers": [STRANGER]}]
    check = presence.check(seen, allow_shared=allow)
    assert (check["id"], check["verdict"]) == ("device-shared", verdict)
    assert "pid 4711 python on NPU 0" in check["message"]


def test_not_knowing_is_a_warning() -> None:
    assert presence.check([{"when": "loaded", "error": "x"}], allow_shared=False)["verdict"] == "warn"
    assert presence.check([{"when": "loaded", "own": [1], "strangers": []}], allow_shared=False)["verdict"] == "pass"
