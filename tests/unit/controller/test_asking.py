"""What a person at a terminal is asked, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collect_remote.cli.asking import ask
from collect_remote.errors import UsageError
from collect_remote.inventory import ModelSpec
from collect_remote.request import Request

LLAMA = ModelSpec("m", "llama", None, {})
FLUX = ModelSpec("m", "diffusers", None, {})
SCRIPT = ModelSpec("m", None, "script", {"project": "/w", "command": ["x"]})
CALLS = ModelSpec("m", None, "script", {"project": "/w", "command": ["x"], "step_on": ["a:B.c"]})
AUTO = ModelSpec("m", None, "auto", {"project": "/w", "command": ["x"]})


def asked(request: Request, model: ModelSpec, *answers: str) -> tuple[Request, list[str]]:
    questions: list[str] = []
    left: Iterator[str] = iter(answers)

    def answer(question: str) -> str:
        questions.append(question)
        return next(left)

    return ask(request, model, answer), questions


def test_the_defaults_are_both_and_ten() -> None:
    request, questions = asked(Request("h", "m"), LLAMA, "", "")
    assert (request.phase, request.steps) == ("both", 10)
    assert questions == ["phase (both, prefill, decode, separate) [both]: ", "decode steps [10]: "]


@pytest.mark.parametrize(
    ("given", "model", "answers", "found"),
    [
        (Request("h", "m", phase="decode"), LLAMA, ["20"], ("decode", 20, False)),
        (Request("h", "m", steps=7), LLAMA, ["separate"], ("separate", 7, False)),
        (Request("h", "m", phase="prefill"), LLAMA, [], ("prefill", None, False)),
        (Request("h", "m"), FLUX, [""], (None, 5, False)),
        (Request("h", "m"), SCRIPT, ["decode", "all"], ("decode", None, True)),
        (Request("h", "m"), SCRIPT, ["both", "train", "4"], ("train", 4, False)),
        (Request("h", "m"), CALLS, ["both", "all", "6"], ("both", 6, False)),
        (Request("h", "m"), AUTO, [], (None, None, False)),
        (Request("h", "m"), LLAMA, ["neither", "both", "all", "2", "12"], ("both", 12, False)),
    ],
)
def test_only_what_was_left_open_is_asked(
    given: Request, model: ModelSpec, answers: list[str], found: tuple[str | None, int | None, bool]
) -> None:
    request, questions = asked(given, model, *answers)
    assert (request.phase, request.steps, request.all_steps) == found
    assert len(questions) == len(answers)


def test_three_bad_answers_are_enough() -> None:
    with pytest.raises(UsageError, match="'x' is no answer"):
        asked(Request("h", "m"), LLAMA, "x", "x", "x")


def test_a_users_own_adapter_is_asked_what_it_can(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def load(d, o): ...\ndef prefill(s): ...\n")
    request, questions = asked(Request("h", "m"), ModelSpec("m", str(tmp_path / "a.py"), None, {}))
    assert (request, questions) == (Request("h", "m"), [])
