"""What a route is: a way to get a profile out of a program, as two pure functions and the options they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..inventory.hosts import ModelSpec
from ..inventory.options import Check
from ..request import Request, Window
from ..survey.project import ProjectFacts, Wants
from .plan import Plan

ALL_STEPS = "all"  # of `--steps`


@dataclass(frozen=True, slots=True)
class Match:
    """A route fits: by what `evidence`, in words, and which `version` of the framework it is, where that shows.

    ranks: how many the program has on this host, nodes: on how many hosts it runs; None where its texts do not tell.
    """

    evidence: tuple[str, ...]
    version: str | None = None
    ranks: int | None = None
    nodes: int | None = None


def _nothing(_: Mapping[str, Any]) -> Wants:
    return Wants()


def _nothing_lacks(_: Mapping[str, Any]) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Route:
    """One way to a profile.

    phases: what `--phase` may be, the default first. options: what a model of the inventory may say besides `project`
    and `command`; `required` of all these. wants: what has to be seen of the project, by the model's options.
    detect: whether a project is one of these; it is not asked when the user names the route. plan: raises UsageError or
    EnvironmentUnfit for what cannot be done. all_steps: whether `--steps all` has a meaning. lacking: of the phases and
    `ALL_STEPS`, what `plan` refuses to a model with such options, whatever its project is. on_several: whether the
    command can be started on every host of one job.
    """

    name: str
    phases: tuple[str, ...]
    detect: Callable[[ModelSpec, ProjectFacts], Match | None]
    plan: Callable[[Request, Window, ModelSpec, ProjectFacts], Plan]
    wants: Callable[[Mapping[str, Any]], Wants] = _nothing
    options: Mapping[str, Check] = field(default_factory=dict)
    required: tuple[str, ...] = ("command",)
    all_steps: bool = False
    lacking: Callable[[Mapping[str, Any]], tuple[str, ...]] = _nothing_lacks
    on_several: bool = True
