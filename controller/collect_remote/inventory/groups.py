"""Which groups a host is in and in which order they count, as Ansible reckons it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from .tree import Group


def by_strength(groups: Mapping[str, Group]) -> list[str]:
    """The groups, the weakest first: `all`, then by depth, priority and name. InventoryError when they go in a circle.

    The depth of a group is its longest way from `all`.
    """
    depths: dict[str, int] = {}
    parents: dict[str, list[str]] = {name: [] for name in groups}
    for name, group in groups.items():
        for child in group.children:
            parents[child].append(name)
    for name in _parents_first(groups, parents):
        depths[name] = max((depths[parent] + 1 for parent in parents[name]), default=0)
    return sorted(groups, key=lambda name: (depths[name], groups[name].priority, name))


def _parents_first(groups: Mapping[str, Group], parents: Mapping[str, list[str]]) -> list[str]:
    try:
        return list(TopologicalSorter(parents).static_order())
    except CycleError as error:
        cycle: list[str] = error.args[1]
        links = [groups[parent].children.get(child) for parent, child in pairwise(cycle)]
        where = next(link for link in links if link)
        way = " > ".join(cycle)
        raise where.error(f"the groups go round in a circle: {way}", "remove one of them as a child") from error


def members(groups: Mapping[str, Group]) -> dict[str, tuple[str, ...]]:
    """The hosts of every group: its own, then those of its children, then of theirs."""
    return {
        name: tuple(dict.fromkeys(h for below in _below(groups, name) for h in groups[below].hosts)) for name in groups
    }


def _below(groups: Mapping[str, Group], name: str) -> Iterator[str]:
    """A group and all below it, level by level."""
    level, seen = [name], {name}
    while level:
        yield from level
        level = list(dict.fromkeys(child for above in level for child in groups[above].children if child not in seen))
        seen.update(level)
