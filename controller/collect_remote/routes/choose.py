"""From a request to its plan: what can be decided without the host, and what its facts decide."""

from __future__ import annotations

import dataclasses

from ..errors import CollectError, EnvironmentUnfit, ProfileInvalid, RunFailed, UsageError
from ..inventory.hosts import Host, ModelSpec
from ..request import Request, Window, window
from ..survey.project import ProjectFacts, look
from . import AUTO, TEMPLATE, detect, routes, template
from .plan import Plan
from .route import Match, Route


def model_of(request: Request, host: Host) -> ModelSpec:
    """The model that is asked for, with the route that is. UsageError when the model cannot be run that way."""
    model = host.model(request.model)
    if request.route in (None, model.route) or (request.route == TEMPLATE and model.route is None):
        return model
    if request.route == TEMPLATE:
        if model.fallback is None:
            raise UsageError(
                f"model {model.name} has no adapter, which --route {TEMPLATE} needs", "add `fallback: {adapter: ...}`"
            )
        return model.fallback
    if model.route is None:
        remedy = "leave it out, or make it another model with `route:` and `project:`"
        raise UsageError(f"--route {request.route}: model {model.name} has an adapter and no project", remedy)
    if request.route != AUTO:
        lacking = [key for key in routes()[request.route].required if key not in model.options]
        if lacking:
            raise UsageError(
                f"--route {request.route}: model {model.name} says no {lacking[0]}", "add it in the inventory"
            )
    return dataclasses.replace(model, route=request.route)


def early(request: Request, model: ModelSpec) -> tuple[Window, Plan] | None:
    """What can be decided before the host is asked: everything for an adapter, None for a route, once it is checked."""
    if model.route is None:
        decided = window(request, model)
        return decided, template.plan(request, decided, model)
    if model.route != AUTO:
        _window(request, model, routes()[model.route])
    return None


def gives_way(error: CollectError) -> bool:
    """Whether a model's fallback takes over: its own way has been gone to the end, and there is no valid profile."""
    # Not what is wrong with the host before, or becomes of it meanwhile, as of a container that stops.
    ended = isinstance(error, EnvironmentUnfit | RunFailed) and error.of_run
    return ended or isinstance(error, ProfileInvalid)


def in_place_of(model: ModelSpec, why: str, request: Request) -> tuple[Window, Plan]:
    """The template with the model's fallback, after the model's own way came to nothing; the plan says `why`."""
    assert model.fallback is not None  # noqa: S101 - or nobody would ask
    asked = dataclasses.replace(request, ranks=(), all_steps=False)
    try:
        decided = window(asked, model.fallback)
    except UsageError:  # the adapter has other phases, or needs more steps
        asked = dataclasses.replace(asked, phase=None, steps=None)
        decided = window(asked, model.fallback)
    plan = template.plan(asked, decided, model.fallback)
    return decided, dataclasses.replace(plan, notes=(f"in place of route {model.route}: {why}",))


def wanted(model: ModelSpec) -> str:
    """What the survey has to look at; "" for nothing."""
    return look(model, detect.wants(model)) if model.route else ""


def ranks_of(model: ModelSpec, facts: ProjectFacts) -> int:
    """How many devices the program of the model needs, as far as its project tells; 1 where it does not."""
    try:
        _, match = detect.find(model, facts)
    except CollectError:
        return 1
    return max(match.ranks or 1, 1)


def late(request: Request, model: ModelSpec, facts: ProjectFacts) -> tuple[Window, Plan]:
    """With what was seen of the project. Raises what `detect.find` and the route's `plan` raise."""
    route, match = detect.find(model, facts)
    model = dataclasses.replace(model, route=route.name)
    decided = _window(request, model, route)
    _require_place(request, model, match)
    if request.nodes and not route.on_several:
        raise UsageError(
            f"--nodes: route {route.name} starts its program on one host", "leave --nodes out, or use `route: script`"
        )
    plan = route.plan(request, decided, model, facts)
    return decided, dataclasses.replace(plan, evidence=match.evidence)


def _require_place(request: Request, model: ModelSpec, match: Match) -> None:
    """UsageError when the program is made for other hosts or devices than those that are asked for."""
    if match.nodes not in (None, request.node_count):
        asked = "one is" if request.node_count == 1 else f"{request.node_count} are"
        raise UsageError(
            f"the program of model {model.name} runs on {match.nodes} hosts, and {asked} asked for",
            "choose a configuration of it for one host, or name the further ones with --nodes",
        )
    if match.ranks not in (None, request.rank_count):
        raise UsageError(
            f"the program of model {model.name} has {match.ranks} ranks, and the request is for {request.rank_count}",
            f"say --devices {match.ranks}; --ranks chooses those to profile",
        )


def _window(request: Request, model: ModelSpec, route: Route) -> Window:
    if request.all_steps and not route.all_steps:
        raise UsageError(
            f"--steps all: route {route.name} does not know how many steps the program of model {model.name} makes",
            "say how many to record",
        )
    return window(request, model, route.phases)
