"""Which cells a sweep has: hosts of the inventory, and what is asked of each. Pure but for users' own adapter files."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import __version__, agent_file
from ..errors import UsageError
from ..inventory import Host, Inventory
from ..request import Request
from ..routes.choose import early, model_of
from .cells import Cell, cell


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of every host, but for some, or of one only. `name`: what the names of its cells end with."""

    request: Request
    name: str = ""
    not_on: frozenset[str] = frozenset()
    only_on: str | None = None


def cells_of(
    inventory: Inventory,
    hosts: str = "all",
    models: Iterable[str] | None = None,
    phases: Iterable[str | None] = (None,),
    **asked: Any,
) -> tuple[Cell, ...]:
    """Hosts x models x phases. `hosts`: a pattern of the inventory; `models`: all of theirs unless given.

    `asked`: further fields of `Request`. Where a host lacks a model that others have, there is no cell. UsageError for
    a model that no host has, a phase that a model does not have, and when nothing is left.
    """
    chosen, phases = inventory.select(hosts), tuple(phases)
    names = models_of(chosen) if models is None else tuple(models)
    return expand(chosen, [Wanted(Request("", name, phase, **asked)) for name in names for phase in phases])


def models_of(hosts: Iterable[Host]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for host in hosts for name in host.models))


def expand(hosts: Sequence[Host], wanted: Iterable[Wanted]) -> tuple[Cell, ...]:
    """Every request on every host that has its model. UsageError as in `cells_of`."""
    found = []
    for one in wanted:
        having = [host for host in hosts if one.request.model in host.models]
        if not having:
            hosts[0].model(one.request.model)
        for host in having:
            request = dataclasses.replace(one.request, host=host.name)
            early(request, model_of(request, host))
            if host.name not in one.not_on and one.only_on in (None, host.name):
                found.append(cell(host, request, tool(), one.name))
    if not found:
        raise UsageError("the sweep has no cells", "see which models the hosts have: `collect-remote inventory`")
    (key, times), *_ = Counter(one.key for one in found).most_common(1)
    if times > 1:
        raise UsageError(f"the sweep has the cell {key!r} {times} times", "name every model and phase once")
    return tuple(found)


def tool() -> str:
    """What takes part from our side: its version and its agent, which is named by its digest."""
    return f"{__version__} {agent_file.build().name}"
