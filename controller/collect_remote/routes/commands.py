"""The user's command: what it says, and how more arguments come to its end. All pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from ..errors import EnvironmentUnfit
from ..inventory import ModelSpec
from ..project import ProjectFacts

PASSES_ON = re.compile(r"\$@|\$\*|\$\{@\}")


def words(model: ModelSpec, facts: ProjectFacts) -> list[str]:
    """Those of the command and of the shell scripts that it starts."""
    return [*model.options["command"], *(word for script in scripts(facts) for word in _split(facts.texts[script]))]


def scripts(facts: ProjectFacts) -> list[str]:
    """The shell scripts that the command starts, in the order in which they name each other."""
    return [path for path in facts.entries if path.endswith(".sh") and path in facts.texts]


def appended(model: ModelSpec, facts: ProjectFacts, more: Sequence[str]) -> tuple[str, ...]:
    """The command with more arguments behind its own. EnvironmentUnfit when a script on the way keeps them."""
    keeps = [path for path in scripts(facts) if not PASSES_ON.search(facts.texts[path])]
    if keeps:
        raise EnvironmentUnfit(
            f"{keeps[0]} does not pass on what it is given, and its program needs more arguments",
            f'name the program itself in `command` of model {model.name}, or end its line in the script with "$@"',
        )
    return (*model.options["command"], *more)


def number(said: Sequence[str], *names: str) -> int | None:
    """The value that the last of these options has (`--name N` or `--name=N`); 1 without it, None for no number."""
    found = "1"
    for at, word in enumerate(said):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else said[at + 1] if at + 1 < len(said) else ""
    return int(found) if found.isdecimal() else None


def setting(said: Sequence[str], key: str, default: int) -> int | None:
    """The number of the last `key=N`, as Hydra takes it; `default` without one, None for no number."""
    found = [word.partition("=")[2] for word in said if word.lstrip("+").partition("=")[0] == key]
    if not found:
        return default
    return int(found[-1]) if found[-1].isdecimal() else None


def _split(text: str) -> list[str]:
    """A script's words, as far as they can be told without running it."""
    lines = text.replace("\\\n", " ").splitlines()
    return [word for line in lines for word in _line(line)]


def _line(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # a quotation that goes on
        return line.split()
