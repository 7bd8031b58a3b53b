"""What keeps a host from being surveyed: the complaints of the script, as errors. Pure."""

from __future__ import annotations

import re

from ..errors import CollectError, EnvironmentUnfit, Trouble
from .script import HANGS_S

OLDEST_PYTHON = (3, 8)

NO_SETUP = Trouble(
    "setup-not-readable",
    EnvironmentUnfit,
    "cannot read {path} {place}, which the inventory names under `setup`",
    "a wrong path, a directory that this account may not enter, or, with `container`, a path of the host",
    "correct the path, or remove it: the usual places of CANN are then tried",
)
SETUP_EXITS = Trouble(
    "setup-exits",
    EnvironmentUnfit,
    "{path} ended the shell that sourced it",
    "a script that is sourced and calls `exit` ends whoever sources it; it may print anything and return anything else",
    "it must not call exit: mend it, or name another under `setup` in the inventory",
)
SETUP_HANGS = Trouble(
    "setup-hangs",
    EnvironmentUnfit,
    "{path} did not end within {seconds} s and was killed",
    "it waits: for input, which it does not get, for a disk, or for sudo's password",
    "it must end by itself and ask for nothing: mend it, or name another under `setup` in the inventory",
)
NO_PYTHON = Trouble(
    "no-python",
    EnvironmentUnfit,
    "there is no {name} {place}",
    "a session without a terminal may have a shorter PATH than a terminal, and no conda",
    "name the Python to use: `python: /path/to/python3` in the inventory",
)
OLD_PYTHON = Trouble(
    "python-too-old",
    EnvironmentUnfit,
    "the host's Python does not run the survey: it says {version!r}",
    "the system's own Python of an old distribution; the one with torch_npu is another",
    "the agent needs Python {oldest} or newer: name one with `python` in the inventory",
)
NO_FACTS = Trouble(
    "python-does-not-start",
    EnvironmentUnfit,
    "the survey failed {place} under {python}: {said}",
    "an interpreter whose libraries are not found, or that a broken sitecustomize or PYTHONPATH stops",
    "see that this Python starts on the host, or name another with `python` in the inventory",
)
NO_ANSWER = Trouble(
    "survey-without-answer",
    EnvironmentUnfit,
    "the host did not answer the survey: {said}",
    "the session ended before the program said what it found",
    "log in with ssh and see that bash and python3 run there without asking anything",
)
NO_HOST_PYTHON = Trouble(
    "no-python-outside",
    EnvironmentUnfit,
    "there is no python3 on the host itself, outside of the container",
    "devices are chosen and leased on the host, where all of its containers see the leases",
    "install Python 3.8 or newer there: the devices are chosen and leased on the host",
)
OLD_HOST_PYTHON = Trouble(
    "python-outside-too-old",
    EnvironmentUnfit,
    "python3 on the host itself does not run the survey: it says {version!r}",
    "devices are chosen and leased on the host, where all of its containers see the leases",
    "install Python 3.8 or newer there: the devices are chosen and leased on the host",
)


def complaint(word: str, detail: str, said: str, place: str) -> CollectError | None:
    """The error in a line of the script; None for a word that is none. `said` before it; `place`: where it ran."""
    if word == "hangs":
        return SETUP_HANGS(path=detail, seconds=HANGS_S)
    if word == "no-setup":
        return NO_SETUP(path=detail, place=place)
    if word == "no-python":
        return NO_PYTHON(name=detail, place=place)
    if word == "no-facts":
        return _no_facts(detail, said, place)
    return None


def old_python(version: str) -> CollectError:
    return OLD_PYTHON(version=version, oldest=".".join(map(str, OLDEST_PYTHON)))


def _no_facts(python: str, said: str, place: str) -> CollectError:
    """The program broke off, under a Python that says what it is, or fails at that too."""
    version = tuple(map(int, re.findall(r"[0-9]+", python)))
    if python.startswith("Python ") and version < OLDEST_PYTHON:
        return old_python(python)
    return NO_FACTS(place=place, python=python or "a Python without a version", said=said)
