"""The routes to a profile, one file each, all pure: request and facts in, plan out."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..inventory.options import Check
    from .route import Route

AUTO = "auto"
TEMPLATE = "template"  # of a model with an adapter; see `template`


@functools.cache
def routes() -> Mapping[str, Route]:
    """By name, in the order in which a project is held against them."""
    from . import cann_recipes, diffusers, dynamic, mindie_sd, mindspeed, script, verl, vllm, wrapper

    frameworks = (cann_recipes.ROUTE, mindspeed.ROUTE, verl.ROUTE, vllm.ROUTE, mindie_sd.ROUTE)
    in_order = (*frameworks, *wrapper.ROUTES, script.ROUTE, diffusers.ROUTE, dynamic.ROUTE)
    return {route.name: route for route in in_order}


def options_of(name: str) -> tuple[Mapping[str, Check], tuple[str, ...]]:
    """What a model with this route may say, and what it must. For "auto": whatever one of the routes takes."""
    from ..inventory import options

    known: dict[str, Check] = {"project": options.directory, "command": options.command}
    if name != AUTO:
        route = routes()[name]
        return {**known, **route.options}, ("project", *route.required)
    for route in routes().values():
        known.update(route.options)
    return known, ("project",)
