"""What a sweep does next: nobody waits for another host, nothing is done twice, everything ends."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect_remote.errors import UsageError
from collect_remote.request import Request
from collect_remote.sweeps.cells import Cell, Outcome, Progress
from collect_remote.sweeps.schedule import Limits, after, doomed, exhausted, given_up, next_due, stale, startable

LOST = Outcome("failed", {"message": "no route", "kinds": ["unreachable", "connection", "internal"]})
BROKEN = Outcome("failed", {"message": "the model raised", "kinds": ["run-failed", "internal"]})


def cells(*names: str, **fields: Any) -> list[Progress]:
    """Names like `a/1`: host a, model 1."""
    made = []
    for name in names:
        host, model = name.split("/")
        made.append(Progress(Cell(name, host, model, Request(host, model), ""), **fields))
    return made


def keys(chosen: list[Progress]) -> list[str]:
    return [one.cell.key for one in chosen]


def test_every_host_has_its_turn_before_any_has_a_second() -> None:
    waiting = cells("a/1", "a/2", "a/3", "b/1", "c/1")
    assert keys(startable(waiting, Limits(jobs=3), 0)) == ["a/1", "b/1", "c/1"]
    assert keys(startable(waiting, Limits(jobs=4, per_host=2), 0)) == ["a/1", "b/1", "c/1", "a/2"]
    had = [*cells("a/1", state="valid", attempts=1), *cells("a/2", "b/1", "b/2")]
    assert keys(startable(had, Limits(jobs=1), 0)) == ["b/1"]


def test_a_busy_host_delays_only_itself() -> None:
    every = [*cells("a/1", state="running", attempts=1), *cells("a/2", "b/1")]
    assert keys(startable(every, Limits(), 0)) == ["b/1"]
    assert keys(startable(every, Limits(jobs=1), 0)) == []


@given(
    st.lists(st.sampled_from(["a/1", "a/2", "a/3", "b/1", "b/2", "c/1"]), unique=True, min_size=1),
    st.integers(1, 4),
    st.integers(1, 3),
    st.data(),
)
def test_every_cell_ends_whatever_its_attempts_do(
    names: list[str], jobs: int, per_host: int, data: st.DataObject
) -> None:
    """Valid or failed at the end, each valid once, never more at a time than may be."""
    limits = Limits(jobs, per_host, {"unreachable": 2})
    every = {one.cell.key: one for one in cells(*names)}
    failures, now, valid = dict.fromkeys(names, 0), 0.0, []
    while True:
        for one in startable(list(every.values()), limits, now):
            every[one.cell.key] = dataclasses.replace(one, state="running", attempts=one.attempts + 1)
        running = [one for one in every.values() if one.state == "running"]
        assert len(running) <= jobs
        assert all(sum(one.cell.host == host for one in running) <= per_host for host in "abc")
        if not running:
            due = next_due(list(every.values()), limits, now)
            if due is None:
                break
            now = due
            continue
        one = data.draw(st.sampled_from(running))
        outcome = data.draw(st.sampled_from([Outcome("valid"), LOST, BROKEN]))
        failures[one.cell.key] += outcome.state == "failed"
        state, due = after(outcome, failures[one.cell.key], limits, now)
        every[one.cell.key] = dataclasses.replace(one, state=state, due=due, outcome=outcome)
        valid += [one.cell.key] if state == "valid" else []
    assert {one.state for one in every.values()} <= {"valid", "failed"}
    assert len(valid) == len(set(valid))
    assert all(one.attempts <= 3 for one in every.values())


def test_what_is_tried_again_depends_on_how_it_ended() -> None:
    limits = Limits(retries={"connection": 2, "unreachable": 0})
    assert after(LOST, 1, limits, 100) == ("failed", 0)  # the nearer class decides
    assert after(LOST, 1, Limits(retries={"connection": 2}), 100) == ("pending", 102)
    assert after(LOST, 2, Limits(retries={"connection": 2}), 100) == ("pending", 104)
    assert after(LOST, 3, Limits(retries={"connection": 2}), 100) == ("failed", 0)
    assert after(BROKEN, 1, limits, 100) == ("failed", 0)
    assert after(Outcome("lost"), 0, limits, 100) == after(Outcome("interrupted"), 0, limits, 100) == ("pending", 0)


@pytest.mark.parametrize(("most", "failed", "over"), [(None, 4, False), ("1", 1, False), ("1", 2, True)])
def test_a_budget_of_failures(most: str | None, failed: int, over: bool) -> None:
    every = [*cells("a/1", "a/2", "b/1", "b/2")[:failed], *cells("c/1", "d/1")]
    every[:failed] = [dataclasses.replace(one, state="failed") for one in every[:failed]]
    limits = Limits(max_fail=most)
    assert exhausted(every, limits) is over
    assert bool(startable(every, limits, 0)) is not over
    assert exhausted(every, Limits(max_fail="50%")) is (failed > len(every) / 2)


def test_releases_that_changed_make_earlier_results_of_the_host_stale() -> None:
    old, new = ({"cann": cann, "torch_npu": "2.6", "transformers": None} for cann in ("8.1", "8.2"))
    every = [
        *cells("a/1", "b/1", state="valid", outcome=Outcome("valid", versions=old)),
        *cells("a/2", state="failed", outcome=BROKEN),
        *cells("a/3", state="valid", outcome=Outcome("valid", versions=new)),
    ]
    assert keys(stale(every, every[-1])) == ["a/1"]
    assert stale(every[:2], every[0]) == []


def test_a_host_that_lets_nobody_in_is_not_tried_for_every_cell() -> None:
    every = [*cells("a/1", state="failed", outcome=LOST), *cells("a/2", "b/1")]
    assert keys(doomed(every, every[0])) == ["a/2"]
    assert doomed(every, dataclasses.replace(every[0], outcome=BROKEN)) == []
    told = given_up(every[1], every[0])
    assert told.error is not None
    assert told.error["message"] == "given up, as a/1 had failed: no route"
    assert not told.left
    assert given_up(dataclasses.replace(every[1], outcome=Outcome("failed", left=True)), every[0]).left


def test_no_pause_is_longer_than_the_longest_whatever_somebody_does_to_the_clock() -> None:
    (one,) = cells("a/1", due=1000.0)
    assert keys(startable([one], Limits(), 999)) == []
    assert next_due([one], Limits(), 999) == 1000
    assert keys(startable([one], Limits(), 1000)) == keys(startable([one], Limits(), 0)) == ["a/1"]
    assert next_due([one], Limits(), 0) is None


@pytest.mark.parametrize(
    "said",
    [{"jobs": 0}, {"per_host": 0}, {"max_fail": "1e3"}, {"max_fail": -1}, {"timeout": 0}, {"retries": {"lost": 1}}],
)
def test_limits_that_are_none_are_refused(said: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Limits(**said)
    assert Limits(max_fail=3) != Limits(max_fail="3%", timeout=0.1, retries={"storage": 1})
