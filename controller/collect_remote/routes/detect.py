"""Which route a project is for, by what was seen of it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from ..errors import EnvironmentUnfit, UsageError
from ..inventory.hosts import ModelSpec
from ..survey.project import ProjectFacts, Wants
from . import AUTO, routes
from .route import Match, Route


def wants(model: ModelSpec) -> Wants:
    """What has to be seen to choose the route of a model, and to plan it."""
    asked = [route.wants(model.options) for route in _candidates(model)]
    return Wants(
        tuple(name for part in asked for name in part.files),
        tuple(word for part in asked for word in part.words),
        tuple(name for part in asked for name in part.distributions),
    )


def find(model: ModelSpec, facts: ProjectFacts) -> tuple[Route, Match]:
    """The route that the model names, else the first that fits.

    EnvironmentUnfit when the project cannot be looked at, or no route fits.
    """
    if facts.problem:
        raise facts.unfit(model.name)
    script = _script(model.options.get("command", ()))
    if script is not None and posixpath.relpath(posixpath.join(facts.path, script), facts.path) not in facts.entries:
        raise facts.lacks(script, model.name)
    if model.route != AUTO:
        (route,) = _candidates(model)
        return route, route.detect(model, facts) or Match((f"route {route.name} was asked for",))
    for route in _candidates(model):
        match = route.detect(model, facts)
        if match and all(key in model.options for key in route.required):
            return route, match
    seen = f"{len(facts.reached)} of its files, from {', '.join(facts.entries) or 'no script of its own'} on"
    raise EnvironmentUnfit(
        f"no route fits {facts.path}, the project of model {model.name}: nothing in {seen}, uses a profiler",
        "name the route (`route:`), or what one step is (`route: script` with `step_on: package.module:Class.method`)",
    )


def _script(command: Sequence[str]) -> str | None:
    """The first word of a command that is the name of a script, and nothing else.

    None where it may be what an option or a module is given: that need not be there, nor below the project.
    """
    before = ""
    for word in command:
        if before in ("-m", "-c"):
            return None
        if re.fullmatch(r"[^\s=]+\.(?:py|sh)", word):
            return None if before.startswith("-") else word
        before = word
    return None


def _candidates(model: ModelSpec) -> tuple[Route, ...]:
    known = routes()
    if model.route is None:
        return ()
    if model.route == AUTO:
        return tuple(known.values())
    if model.route not in known:
        raise UsageError(f"there is no route {model.route!r}", f"there are {', '.join(known)}")
    return (known[model.route],)
