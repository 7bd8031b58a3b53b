"""From files to hosts: reads the inventories and what lies beside them, and lets every host inherit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import InventoryError
from . import groups, variables
from .beside import Beside, read_beside
from .document import read
from .hosts import Inventory
from .sources import beside, inventory_files
from .tree import Tree
from .variables import Variables

_EMPTY = "write at least `all: {hosts: {NAME: }}`"


def gather(sources: Sequence[Path]) -> Inventory:
    """The inventory that these files and directories are together. Raises InventoryError."""
    tree = _tree(sources)
    order = groups.by_strength(tree.groups)
    if not tree.hosts:
        raise InventoryError(f"{', '.join(map(str, sources))}: the inventory has no hosts", _EMPTY)
    members = groups.members(tree.groups)
    directories = list(dict.fromkeys(beside(source) for source in reversed(sources)))[::-1]
    of_groups = [read_beside(place, "group", tree.groups, tree.hosts) for place in directories]
    of_hosts = [read_beside(place, "host", tree.hosts, tree.groups) for place in directories]
    own: dict[str, list[str]] = {name: [] for name in tree.hosts}
    for name in order:
        for host in members[name]:
            own[host].append(name)
    said = {name: variables.inherit(_blocks(name, own[name], tree, of_groups, of_hosts)) for name in tree.hosts}
    return Inventory(
        sources=tuple(sources),
        by_name={name: variables.host(name, values) for name, values in said.items()},
        groups=members,
        said=said,
        places=tree.places,
        cautions=tuple(caution for found in (*of_groups, *of_hosts) for caution in found.cautions),
    )


def _tree(sources: Sequence[Path]) -> Tree:
    tree = Tree()
    for path in (file for source in sources for file in inventory_files(source)):
        root = read(path, "give the path of an inventory with --inventory, or copy the example from the documentation")
        if root is None:
            raise InventoryError(f"{path}: the inventory is empty", _EMPTY)
        tree.add(root)
    tree.close()
    return tree


def _blocks(
    host: str, own_groups: Sequence[str], tree: Tree, of_groups: Sequence[Beside], of_hosts: Sequence[Beside]
) -> Iterator[Variables]:
    """All variables that reach a host, the weakest first; `own_groups` are in that order too, `all` is the first.

    Ansible's order: groups in the inventory, group_vars/all, other group_vars, the host itself, host_vars; of several
    directories the later is stronger, whatever the groups.
    """
    for name in own_groups:
        yield from tree.groups[name].variables
    for found in of_groups:
        yield from found.blocks.get("all", ())
    for found in of_groups:
        for name in own_groups[1:]:
            yield from found.blocks.get(name, ())
    yield from tree.hosts[host]
    for found in of_hosts:
        yield from found.blocks.get(host, ())
