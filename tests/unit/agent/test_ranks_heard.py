"""Several ranks, heard as one program."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from collect_agent.failure import Failure
from collect_agent.run import ranks

DEVICE = {"stage": "import", "device": {"count": 2, "pid": 1}}


def of(rank: int, **event: Any) -> dict[str, Any]:
    return {**event, **({"rank": rank} if rank else {})}


def test_one_rank_is_heard_as_it_is() -> None:
    heard = ranks.Ranks([0])
    for event in ({"stage": "load"}, DEVICE, {"stage": "loaded"}, {"stage": "recorded", "window": "both"}):
        assert heard.hear(event) == event


def test_rank_0_speaks_for_all_but_for_devices_and_errors() -> None:
    heard = ranks.Ranks([0, 1])
    step = {"stage": "profile", "step": 1}
    assert heard.hear(step) == step
    assert heard.hear(of(1, **step)) is None
    assert heard.hear(of(1, **DEVICE)) == of(1, **DEVICE)
    error = heard.hear(of(1, stage="error", kind="RunFailed", message="no luck", remedy=""))
    assert error is not None
    assert error["message"] == "rank 1: no luck"
    assert [event["stage"] for event in heard.told[1]] == ["profile", "import"]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 1, 2, 0]])
def test_a_gate_opens_when_all_have_come_and_every_time_anew(order: list[int]) -> None:
    heard = ranks.Ranks([0, 1, 2])
    for stage in ("loaded", "recorded", "recorded"):
        said = [heard.hear(of(rank, stage=stage)) for rank in order]
        assert said == [None] * (len(order) - 1) + [{"stage": stage}]


@pytest.mark.parametrize("rank", [2, -1, 10**9])
def test_a_rank_that_does_not_exist_is_passed_over(rank: int) -> None:
    assert ranks.Ranks([0, 1]).hear({"stage": "loaded", "rank": rank}) is None


def test_a_rank_that_has_ended_is_missed_at_the_gate() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    heard = ranks.Ranks([0, 1])
    heard.hear(of(1, stage="import", device={"pid": ended.pid}))
    heard.miss()  # nobody waits for it yet
    heard.hear({"stage": "loaded"})
    with pytest.raises(Failure, match="rank 1 ended in its stage import"):
        heard.miss()


# torch 2.13.0, with the names of a host and a script changed.
SUMMARY = """
============================================================
agent.pyz FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-29_21:00:00
  host      : host
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 100) (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 100
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-29_21:00:00
  host      : host
  rank      : 1 (local_rank: 1)
  exitcode  : {} (pid: 101)
  error_file: <N/A>
  traceback : ...
============================================================
"""


def test_the_root_cause_of_torchruns_summary() -> None:
    assert ranks.death(SUMMARY.format(-11).splitlines()) == "rank 1 was killed by SIGSEGV"
    assert ranks.death(SUMMARY.format(3).splitlines()) == "rank 1 ended with exit status 3"
    assert ranks.death(SUMMARY.format(-999).splitlines()) == "rank 1 was killed by signal 999"
    assert ranks.death(["exitcode  : 1 (pid: 3)", "something else"]) is None
