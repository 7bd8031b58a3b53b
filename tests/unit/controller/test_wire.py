"""A host's words are its own: what it announces and claims is checked before anything is done with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect_remote.errors import ProfileInvalid, TransferError, from_agent, one_line
from collect_remote.wire import Sent, checked_manifest, sent_files

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
    "profiles": [{"phase": "decode", "rank": None, "checks": [{"id": "steps", "verdict": "pass"}]}],
    "phases": {"decode": {"step_seconds": [1, 1], "step_kinds": ["decode"] * 2, "warmup_seconds": [2]}},
    "devices": [{"label": "NPU 0", "name": "910B3"}],
    "versions": {},
    "checks": [],
}


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
        {"profiles": [{"phase": "decode", "checks": []}]},
        {"phases": {}},
        {"devices": [{}]},
        {"checks": None},
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
