"""More arguments for a program that a command starts, itself or through a shell script that stays as it is.

A script that passes its own arguments on gets them too. Of any other, the run has a copy with the arguments at the end
of the command that starts the program; it is sourced under the name of the original, in its place. All pure.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import EnvironmentUnfit
from ..survey.project import ProjectFacts
from .plan import Named

COPY = "launch.sh"
VARIABLE = "COLLECT_REMOTE_LAUNCH_{}"  # in which a copy finds what is known on the host only, by its name
NAMES = ("run", "id", "port", "pythonpath")
# What of a shell's text can belong to one command: words, continued lines, quotes, `$(...)`; no pipe,
# no redirection, no comment.
_REST = r"""(?:\\[\s\S]|\$\([^()]*\)|"(?:\\[\s\S]|[^"\\\n])*"|'[^'\n]*'|(?<!\s)#|[^\n\\"'|&;<>()#])*"""
_BEFORE = r"^(?:[^#\n]*?\s)?(?:[\w./${}-]*/)?"
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)
_PASSED_ON = re.compile(r"\$(?:[@*]|\{[@*]\})")
_OWN_PLACE = re.compile(r"\$(?:\{BASH_SOURCE(?:\[0\])?\}|BASH_SOURCE\b)")
_DEVICES = re.compile(r"(\bASCEND_RT_VISIBLE_DEVICES=)(?!\$\{ASCEND_RT_VISIBLE_DEVICES:-)([^\s;&]*)")


@dataclass(frozen=True, slots=True)
class Started:
    """argv, files, env and notes as a plan has them."""

    argv: tuple[str, ...]
    files: dict[str, str]
    env: dict[str, str]
    notes: tuple[str, ...]


def script_of(command: Sequence[str], facts: ProjectFacts) -> str | None:
    """The shell script that the command runs, as the facts name it."""
    for word in command:
        name = posixpath.relpath(posixpath.join(facts.path, word), facts.path)
        if word.endswith(".sh") and name in facts.texts:
            return name
    return None


def program_of(command: Sequence[str], facts: ProjectFacts, programs: str) -> str | None:
    """The first program that the command starts whose name is one of `programs`, a pattern."""
    script = script_of(command, facts)
    words = re.findall(_starts(programs), facts.texts[script], re.MULTILINE) if script else []
    found = [word for word in command if re.fullmatch(programs, posixpath.basename(word))]
    return next((posixpath.basename(word) for word in [*found, *(word for _, word, _ in words)]), None)


def with_arguments(command: Sequence[str], facts: ProjectFacts, programs: str, more: Sequence[str]) -> Started:
    """The command, so that its program gets `more` arguments, the last.

    EnvironmentUnfit when it does not show where the program is started.
    """
    script = script_of(command, facts)
    if any(re.fullmatch(programs, posixpath.basename(word)) for word in command):
        return Started((*command, *more), {}, {}, ())
    starts = list(re.finditer(_starts(programs), facts.texts[script], re.MULTILINE)) if script else []
    if script is None or not starts:
        raise EnvironmentUnfit(
            f"{script or shlex.join(command)} does not show where it starts its program",
            "give the command that starts it as `command`, or that of the script which does",
        )
    text = facts.texts[script]
    if all(_PASSED_ON.search(start[3]) for start in starts) and not _DEVICES.search(text):
        return Started((*command, *more), {}, {}, (f"{script} passes the arguments for its profiler on",))
    at = next(number for number, word in enumerate(command) if word.endswith(posixpath.basename(script)))
    shell = tuple(command[:at]) or ("bash",)
    return Started(
        (*shell, "-c", f'. "${VARIABLE.format("run")}/{COPY}"', *command[at:]),
        {COPY: _copied(text, programs, more)},
        {VARIABLE.format(name): Named(f"{{{name}}}") for name in _names(more)},
        (f"a copy of {script} is run, with the arguments for its profiler",),
    )


def text_of(command: Sequence[str], facts: ProjectFacts) -> str:
    """The command, and what its script says besides comments."""
    script = script_of(command, facts)
    return "\n".join((shlex.join(command), _COMMENT.sub("", facts.texts[script]) if script else ""))


def number_of(option: str, command: Sequence[str], facts: ProjectFacts) -> int | None:
    """The number that the command or its script gives to an option, a pattern; None where the text does not tell."""
    text = text_of(command, facts)
    found = re.search(rf"(?<![\w-]){option}[\s=]+[\"']?(?:\$\{{?(\w+)\}}?|(\d+)\b)", text)
    if found and found[1]:
        found = re.search(rf"^\s*(?:export\s+)?{found[1]}=[\"']?()(\d+)[\"']?\s*$", text, re.MULTILINE)
    return int(found[2]) if found else None


def _names(more: Sequence[str]) -> list[str]:
    """Of what is known on the host only: where the copy lies, and what the arguments name."""
    return [
        "run",
        *(name for name in NAMES[1:] if any(f"{{{name}}}" in word for word in more if isinstance(word, Named))),
    ]


def _starts(programs: str) -> str:
    """A command that starts one of the programs: what is before it, its name, its arguments."""
    return rf"({_BEFORE})({programs})(?![\w./-])({_REST})"


def _copied(text: str, programs: str, more: Sequence[str]) -> str:
    words = " ".join(map(_word, more))

    def longer(start: re.Match[str]) -> str:
        rest = start[3]
        redirected = text[start.end() : start.end() + 1] in ("<", ">")
        kept = re.sub(r"(?<=\s)\d$", "", rest) if redirected else rest  # of a `2>`
        kept = re.sub(r"(?:[ \t]|\\\n)+$", "", kept)
        return f"{start[1]}{start[2]}{kept} {words}{rest[len(kept) :]}"

    copy = re.sub(_starts(programs), longer, text, flags=re.MULTILINE)
    copy = _DEVICES.sub(r"\1${ASCEND_RT_VISIBLE_DEVICES:-\2}", _OWN_PLACE.sub("$0", copy))
    return copy.rstrip("\n") + "\n"


def _word(word: str) -> str:
    """For a shell, which knows by variables what is known on the host only."""
    if not isinstance(word, Named):
        return shlex.quote(word)
    return '"{}"'.format(word.format(**{name: f"${{{VARIABLE.format(name)}}}" for name in NAMES}))
