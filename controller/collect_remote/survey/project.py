"""What the project of a model shows: what is asked of the host, and the answer as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import EnvironmentUnfit
from ..inventory.hosts import ModelSpec

if TYPE_CHECKING:
    from ..containers import Box


@dataclass(frozen=True, slots=True)
class Wants:
    """What a route has to see: files of the project (`*` in the last part of a name), words in its sources, versions of
    distributions (names as in metadata directories: lower case, `_`).
    """

    files: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """What was seen, read-only and bounded. Paths are relative to `path`, the project's real place on the host.

    `problem`: why it cannot be looked at, None when it can. `program`: where the command's first word was found.
    `entries`: the user's own files that the command starts. `texts`: of these and of what was wanted. `reached`: the
    words in each file that the entries import. `hits`: the sources that have a word; examples, tests and documentation
    are no sources. `versions` of distributions, None for what is not installed. `container`: in which all this is.
    """

    path: str
    problem: str | None = None
    program: str | None = None
    entries: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    reached: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    versions: Mapping[str, str | None] = field(default_factory=dict)
    container: Box | None = None

    def unfit(self, model: str) -> EnvironmentUnfit:
        """The error of a project of `model` that has a problem."""
        remedy = "correct `project` in the inventory"
        if str(self.problem).endswith("cannot be read"):
            who = f"{self.container.user}, as whom we are in the container," if self.container else "the login user"
            remedy = f"let {who} read it"
        elif self.container:
            remedy = self.container.advice("project", self.path)
        return EnvironmentUnfit(f"{self.path}, the project of model {model}, {self.problem}{self._place}", remedy)

    def lacks(self, script: str, model: str) -> EnvironmentUnfit:
        """The error of a command of `model` with a script that is not there."""
        remedy = "correct `command` or `project` in the inventory"
        if self.container and script.startswith("/"):
            remedy = self.container.advice("command", script)
        return EnvironmentUnfit(
            f"there is no {script} in {self.path}{self._place}, and the command of model {model} starts it", remedy
        )

    @property
    def _place(self) -> str:
        return f" in the container {self.container.name}" if self.container else ""


def look(model: ModelSpec, wants: Wants) -> str:
    """What the survey is asked, see `onhost.project`."""
    return json.dumps(
        {
            "path": model.options["project"],
            "command": list(model.options.get("command", ())),
            "files": sorted(set(wants.files)),
            "words": sorted(set(wants.words)),
            "distributions": sorted(set(wants.distributions)),
        }
    )


def seen(answer: Mapping[str, Any], container: Box | None = None) -> ProjectFacts:
    """The answer, once its shape was checked (`survey_shape.PROJECT`)."""
    lists = {name: {key: tuple(found) for key, found in answer[name].items()} for name in ("reached", "hits")}
    return ProjectFacts(**{**answer, **lists, "entries": tuple(answer["entries"])}, container=container)
