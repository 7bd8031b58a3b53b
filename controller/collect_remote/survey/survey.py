"""One round trip: everything about the host that the rest of the pipeline decides on, as plain data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from collect_agent.events import MARK

from .. import containers
from ..containers import Box
from ..errors import CollectError, noise_error, one_line
from ..inventory import Host
from ..parallel import in_background
from ..shape import printable
from ..ssh.remote import Remote
from .environment import kept
from .project import ProjectFacts, seen
from .script import script
from .shape import FACTS, read
from .troubles import NO_ANSWER, OLDEST_PYTHON, SETUP_EXITS, complaint, old_python

PATIENCE_S = 90.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What the host is like. Sizes in bytes; versions as the host gives them, None for what is not there.

    `python`: what starts it, as the inventory names it, or its own path; `python_why` it was taken, and which `others`
    have torch_npu when it has not. `setup`: the scripts that were sourced. `canns`: (version, script) of every CANN
    that was found. `greeting`: the last lines that login scripts printed. `output`: what came of using the work
    directory as a run would (`onhost.output.use`), None where it cannot be written. `models`: why the model at a path
    cannot be read, or None. `environment`: every variable that the run will have, secrets included. `npu` is what
    `collect_agent.npu.look` saw.
    """

    python: str
    python_version: tuple[int, ...]
    python_why: str
    others: tuple[str, ...]
    setup: tuple[str, ...]
    canns: tuple[tuple[str, str], ...]
    greeting: tuple[str, ...]
    workdir: str
    workdir_writable: bool
    free_bytes: int
    free_inodes: int | None
    file_system: str | None
    output: Mapping[str, Any] | None
    agent_present: bool
    msprof: str | None
    msprof_py: str | None
    path: str
    visible_devices: str | None
    cann: str | None
    cann_version: str | None
    driver_version: str | None
    versions: Mapping[str, str | None]
    models: Mapping[str, str | None]
    npu: Mapping[str, Any]
    environment: Mapping[str, str] = field(repr=False)
    container: Box | None = None
    project: ProjectFacts | None = None

    @property
    def place(self) -> str:
        """Where all this was found, in words."""
        return f"in the container {self.container.name}" if self.container else "on the host"

    @property
    def box_document(self) -> dict[str, Any] | None:
        """The container as plan and manifest have it."""
        return self.container.document() if self.container else None


_COPIED = (
    *("workdir", "workdir_writable", "free_bytes", "free_inodes", "file_system", "output", "agent_present"),
    *("msprof", "msprof_py", "path", "visible_devices", "cann", "versions", "models"),
)


class _Told:
    """What the survey has printed so far: the words of our lines, and whatever else there was."""

    def __init__(self, host: Host) -> None:
        self.facts: dict[str, Any] | None = None
        self.boxed = containers.Found(host) if host.container else None
        self.begun: list[str] = []
        self.sourced: list[str] = []
        self.canns: list[tuple[str, str]] = []
        self.noise: list[str] = []

    def take(self, word: str, detail: str) -> None:
        if word == "use":
            self.begun.append(printable(detail))
        elif word == "used":
            self.sourced.append(printable(detail))
        elif word == "cann":
            version, _, path = printable(detail).partition(" ")
            self.canns.append((version, path))
        elif word == "facts":
            self.facts = read(detail, FACTS, f"the program {self.place}")
        elif self.boxed:
            self.boxed.take(word, detail, self.noise)

    @property
    def place(self) -> str:
        return "in the container" if self.boxed else "on the host"

    @property
    def is_whole(self) -> bool:
        return self.facts is not None and (self.boxed is None or self.boxed.is_whole)

    @property
    def last(self) -> str:
        return self.noise[-1] if self.noise else "nothing was printed"

    def unfinished(self) -> CollectError | None:
        """The error of a sourced script that never came back."""
        if len(self.begun) == len(self.sourced):
            return None
        return SETUP_EXITS(path=self.begun[-1])


def survey(
    remote: Remote, host: Host, agent: str, meanwhile: Callable[[], None] = lambda: None, look: str = ""
) -> Facts:
    """Ask the host. `agent` is the file name of the agent that may be there already.

    `meanwhile` is called while the host works. `look`: at which project, see `project.look`.

    EnvironmentUnfit when there is no bash, no Python that answers, or a script of `setup` is missing, ends the shell or
    never ends itself; StorageError when the host has no space for as much as that.
    """
    told, asked = _Told(host), in_background(lambda: script(host, agent, look))
    with remote.shell() as stream:
        if host.container:
            containers.ask(stream, host, agent)
        stream.hand_over(asked.result())
        meanwhile()
        for raw in stream.lines(timeout=PATIENCE_S):
            # A login script may have printed something without an end of line in front of the mark.
            before, _, answer = raw.decode("utf-8", "replace").partition(MARK)
            word, _, detail = answer.partition(" ")
            told.noise += filter(None, [one_line(before)])
            if (unfit := complaint(word, printable(detail), told.last, told.place)) is not None:
                raise noise_error(told.noise) or unfit
            told.take(word, detail)
            if told.is_whole:
                return _facts(told, tuple(line for line in stream.greeting if line and MARK.strip() not in line))
            if told.facts is None and told.boxed and told.boxed.left:
                break
    raise told.unfinished() or noise_error(told.noise) or NO_ANSWER(said=told.last)


def _facts(told: _Told, greeting: tuple[str, ...]) -> Facts:
    answer = told.facts or {}
    box, npu = (told.boxed.box(answer), told.boxed.npu) if told.boxed else (None, answer["npu"])
    python = answer["python"]
    version = tuple(python["version"])
    if version < OLDEST_PYTHON:
        raise old_python(".".join(map(str, version)))
    return Facts(
        python=python["path"],
        python_version=version,
        python_why=python["why"],
        others=tuple(python["others"]),
        setup=tuple(told.sourced),
        canns=tuple(told.canns),
        greeting=greeting,
        cann_version=cann_version(answer["cann_place"], answer["cann_version"]),
        driver_version=_version(answer["driver_version"]) or _of_npu_smi(npu),
        environment=kept(answer["environment"]),
        container=box,
        npu=npu,
        project=seen(answer["project"], box) if answer["project"] else None,
        **{name: answer[name] for name in _COPIED},
    )


def cann_version(place: str | None, text: str | None) -> str | None:
    """CANN's release, e.g. "8.3.RC1": in the name of its real directory, or in what a file of it says. Pure.

    version.cfg has "# version: 1.0", that of its own form, and lines like "x_running_version=[7.7.0.1.231:8.3.RC1]".
    """
    named = re.fullmatch(r"(?:cann-)?(\d+\.\d+[\w.-]*)", (place or "").rpartition("/")[2])
    found = named or re.search(r"_version=\[[^]:]*:([^]]+)\]", text or "")
    return found.group(1) if found else _version(text)


def _version(text: str | None) -> str | None:
    """The version in a file with a line like "Version=25.0.rc1"."""
    found = re.search(r"(?im)^(?:package_)?version\s*=\s*(\d+\.\d+[\w.-]*)", text or "")
    return found.group(1) if found else None


def _of_npu_smi(npu: Mapping[str, Any]) -> str | None:
    """The driver's version in the first line of npu-smi's table."""
    found = re.search(r"Version:\s*(\d+\.[\w.-]+)", (npu.get("info") or (0, ""))[1])
    return found.group(1) if found else None
