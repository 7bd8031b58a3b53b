"""A host's words are its own: what it announces and claims is checked before anything is done with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect_remote.collection.wire import Sent, checked_manifest, event, listed_runs, partial_manifest, sent_files
from collect_remote.errors import ProfileInvalid, TransferError, from_agent, one_line

DIGEST = "0" * 64
GOOD = [
    {"name": "profile_l1.tar.gz", "size": 5, "sha256": DIGEST},
    {"name": "run.log", "size": 0, "sha256": DIGEST},
]


def test_the_archive_and_the_log_are_accepted() -> None:
    assert sent_files(GOOD) == (Sent("profile_l1.tar.gz", 5, DIGEST), Sent("run.log", 0, DIGEST))


@pytest.mark.parametrize(
    "announced",
    [
        [{**GOOD[0], "name": "../../../home/me/.bash_profile"}, GOOD[1]],
        [{**GOOD[0], "name": "/etc/cron.d/x"}, GOOD[1]],
        [*GOOD, {**GOOD[1], "name": "more"}],
        [GOOD[0], GOOD[0]],
        [GOOD[0]],
        [{**GOOD[0], "size": -1}, GOOD[1]],
        [{**GOOD[0], "size": float("inf")}, GOOD[1]],
        [{**GOOD[0], "size": "5"}, GOOD[1]],
        [{**GOOD[0], "size": 10**30}, GOOD[1]],
        [{**GOOD[0], "sha256": "x"}, GOOD[1]],
        [{"name": "run.log"}],
        None,
        "files",
    ],
)
def test_anything_else_is_refused(announced: Any) -> None:
    with pytest.raises(TransferError, match="files that are none of a run"):
        sent_files(announced)


ASKED = {"run_id": "r1", "host": "h", "model": "m", "expected": {"steps": {"decode": 2}, "ranks": [0]}}
MANIFEST: dict[str, Any] = {
    **ASKED,
    "verdict": "valid",
    "profiles": [
        {"phase": "decode", "rank": None, "directory": "decode/x", "checks": [{"id": "steps", "verdict": "pass"}]}
    ],
    "phases": {"decode": {"step_seconds": [1, 1], "step_kinds": ["decode"] * 2, "warmup_seconds": [2]}},
    "devices": [{"label": "NPU 0", "name": "910B3"}],
    "versions": {"torch_npu": "2.9.0"},
    "checks": [],
}


def test_every_rank_of_every_phase_must_be_there() -> None:
    asked = {**ASKED, "expected": {**ASKED["expected"], "ranks": [0, 1]}}
    one = MANIFEST["profiles"][0]
    both = {**MANIFEST, "expected": asked["expected"], "profiles": [{**one, "rank": 0}, {**one, "rank": 1}]}
    assert checked_manifest(both, asked) == both
    for ranks in ([0], [1], [0, 0], [0, 2], [0, 1, 2]):
        with pytest.raises(TransferError, match="lacks what a run writes"):
            checked_manifest({**both, "profiles": [{**one, "rank": rank} for rank in ranks]}, asked)
    nameless = {**MANIFEST, "profiles": [{key: value for key, value in one.items() if key != "rank"}]}
    assert checked_manifest(nameless, ASKED) == nameless


def test_only_what_is_not_valid_is_brought_in_part() -> None:
    for verdict in ("invalid", "unproven"):
        assert partial_manifest({**MANIFEST, "verdict": verdict}, ASKED)["verdict"] == verdict
    for wrong in ({"verdict": "valid"}, {"verdict": "invalid", "run_id": "another"}):
        with pytest.raises(TransferError):
            partial_manifest({**MANIFEST, **wrong}, ASKED)
    partial = [{**GOOD[0], "name": "profile_l1.partial.tar.gz"}, GOOD[1]]
    assert sent_files(partial, "profile_l1.partial.tar.gz")
    with pytest.raises(TransferError):
        sent_files(partial)


def test_the_manifest_of_this_run_is_accepted() -> None:
    assert checked_manifest(MANIFEST, ASKED) == MANIFEST


@pytest.mark.parametrize("key", ["run_id", "host", "model", "expected"])
def test_another_runs_manifest_is_refused(key: str) -> None:
    with pytest.raises(TransferError, match=f"not the one of this run: its {key}"):
        checked_manifest({**MANIFEST, key: "other"}, ASKED)


@pytest.mark.parametrize("verdict", ["invalid", "unproven", None])
def test_what_the_host_does_not_call_valid_is_never_published(verdict: Any) -> None:
    with pytest.raises(ProfileInvalid):
        checked_manifest({**MANIFEST, "verdict": verdict}, ASKED)


@pytest.mark.parametrize(
    "change",
    [
        {"profiles": []},
        {"profiles": [{**MANIFEST["profiles"][0], "checks": []}]},
        {"profiles": MANIFEST["profiles"] * 2},
        {"profiles": [*MANIFEST["profiles"], {**MANIFEST["profiles"][0], "phase": "more", "checks": []}]},
        {"profiles": [{**MANIFEST["profiles"][0], "directory": None}]},
        {"phases": {}},
        {"devices": [{}]},
        {"checks": None},
        {"versions": {}},
        {"devices": [{"label": "\x1b[2J", "name": "910B3"}]},
        {"phases": {**MANIFEST["phases"], "more": {}}},
    ],
)
def test_a_manifest_that_proves_nothing_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(TransferError, match="lacks"):
        checked_manifest({**MANIFEST, **change}, ASKED)


@given(st.text())
def test_foreign_words_fit_on_one_line(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert len(line) < 520


def test_an_error_of_the_host_cannot_paint_the_terminal() -> None:
    error = from_agent({"kind": "RunFailed", "message": "a\n\x1b[31mb\x07", "remedy": "x" * 10_000})
    assert error.message == "a [31mb"
    assert len(error.remedy) < 520


@pytest.mark.parametrize(
    ("named", "taken"),
    [
        ("not-finished", "not-finished"),
        ("trace", "trace"),
        ("npu-smi-8020", "npu-smi-8020"),
        *((strange, "") for strange in (None, "host-key-unknown", "no-such", "../../x#y", "\x1b[31m", 1, ["trace"])),
    ],
)
def test_the_entry_that_a_host_names_is_one_that_the_agent_knows(named: Any, taken: str) -> None:
    error = {"kind": "RunFailed", "message": "m", "remedy": "r", "entry": named}
    told = event(json.dumps({"stage": "end", "status": "failed", "error": error, "log": []}))
    assert told is not None
    assert told["error"]["entry"] == taken
    assert from_agent(told["error"]).entry == (taken or "run-failed")


STEP = {"stage": "warmup", "window": "both", "kind": "decode", "step": 1, "of": 2, "seconds": 0.5}


def test_an_event_has_the_fields_of_its_stage_fit_for_a_terminal() -> None:
    told = {**STEP, "kind": "\x1b[31m", "seq": 4, "self": 1, "python": 2}
    assert event(json.dumps(told)) == {**STEP, "kind": " [31m", "seq": 4}
    assert event(json.dumps({"stage": "new\r\u202e", "of": 1})) == {"stage": "new"}


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"stage": 1}', "9" * 5000])
def test_what_is_no_event_is_left_aside(text: str) -> None:
    assert event(text) is None


@pytest.mark.parametrize(
    "told",
    [
        {**STEP, "kind": None},
        {**STEP, "seconds": "5"},
        {**STEP, "seconds": float("nan")},
        {**STEP, "step": True},
        {**STEP, "of": 10**400},
        {"stage": "warmup"},
        {"stage": "precheck", "seq": "1"},
        {"stage": "wait", "reasons": "none", "left_s": 1},
        {"stage": "wait", "reasons": [1], "left_s": 1},
        {"stage": "lease", "devices": [{}]},
        {"stage": "pack", "bytes": "many"},
        {"stage": "end"},
        {"stage": "end", "status": "failed"},
        {"stage": "end", "status": "failed", "error": {"kind": 1, "message": "m", "remedy": "r"}, "log": []},
        {"stage": "stop", "left": ["1"]},
        {"stage": "clean", "kept": {}, "freed": 0},
    ],
)
def test_an_event_of_another_form_is_an_error_in_words(told: dict[str, Any]) -> None:
    with pytest.raises(TransferError, match=f"tells of '{told['stage']}' in words that are not ours: its "):
        event(json.dumps(told))


def test_levels_without_end_are_an_error_in_words() -> None:
    with pytest.raises(TransferError, match="nested too deep"):
        event("[" * 100_000)


LISTED: dict[str, Any] = {
    **dict.fromkeys(("host", "model", "silent_s", "orphan_s", "expected")),
    "run": "r1",
    "state": "failed",
    "stage": "",
    "message": "a\nb",
    "seconds": -259199,
    "bytes": 5,
    "processes": 0,
}


def test_a_listed_run_is_never_younger_than_now() -> None:
    (listed,) = listed_runs([LISTED])
    assert (listed.seconds, listed.silent_s, listed.message) == (0, None, "a b")


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": "5"},
        {"bytes": "many"},
        {"bytes": 10**400},
        {"run": "../r"},
        {"model": "a b"},
        {"expected": {"steps": None}},
        {"processes": None},
    ],
)
def test_runs_of_another_form_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(TransferError, match="describes its runs in words that are not ours"):
        listed_runs([{**LISTED, **change}])
