"""The tree of groups: who is in which, and which variables reach a host, in Ansible's order of precedence."""

from __future__ import annotations

from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from . import values
from .document import Node
from .hosts import suggestion
from .ranges import expand
from .variables import Variables, inherit, read

_PARTS = ("vars", "hosts", "children")


@dataclass(slots=True)
class Group:
    """One group, gathered from all places of the file that speak of it.

    `children` maps a name to the place that says so; `defined` stays false while a group is only named as a child.
    """

    variables: list[Variables] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    children: dict[str, Node] = field(default_factory=dict)
    parents: set[str] = field(default_factory=set)
    defined: bool = False


def host_variables(root: Node) -> dict[str, Variables]:
    """Every host of the file with its variables after inheritance, in the order of the file.

    `all` is the weakest group, deeper groups are stronger, of equally deep ones the last by name; the host's
    own variables are the strongest. Raises InventoryError.
    """
    tree = _Tree()
    for name, body in values.mapping(root).items():
        tree.add_top(name, body)
    blocks: dict[str, list[Variables]] = {host: [] for host in tree.hosts}
    members = {name: set(group.hosts) for name, group in tree.groups.items()}
    depths = _depths(tree.groups)
    for name in reversed(depths):
        for parent in tree.groups[name].parents:
            members[parent] |= members[name]
    for name in sorted(depths, key=lambda name: (depths[name], name)):
        for host in members[name]:
            blocks[host] += tree.groups[name].variables
    return {host: inherit([*blocks[host], *own]) for host, own in tree.hosts.items()}


class _Tree:
    """Groups, and hosts with their own variables, as the file names them."""

    def __init__(self) -> None:
        self.groups = {"all": Group(defined=True)}
        self.hosts: dict[str, list[Variables]] = {}
        self._seen: set[tuple[str, int]] = set()

    def add_top(self, name: str, body: Node) -> None:
        where = body.key or body
        if name in _PARTS:
            raise where.error(f"{name!r} stands outside of any group", "indent it below `all:`")
        group = self._group(name, where)
        group.defined = True
        self._read(name, group, body)

    def _group(self, name: str, where: Node) -> Group:
        values.name(where, name, "group")
        return self.groups.setdefault(name, Group())

    def _read(self, name: str, group: Group, body: Node) -> None:
        # an alias brings the same body back; reading it once is enough
        if body.value is None or (name, id(body.value)) in self._seen:
            return
        self._seen.add((name, id(body.value)))
        group.defined = True
        for part, node in values.mapping(body).items():
            if part not in _PARTS:
                remedy = f"a group has vars, hosts and children; {suggestion(part, _PARTS)}"
                raise (node.key or node).error(f"unknown key {part!r} of group {name}", remedy)
            if node.value is None:
                continue
            if part == "vars":
                group.variables.append(read(node, f"group {name}"))
            elif part == "hosts":
                self._read_hosts(group, node)
            else:
                for child, child_body in values.mapping(node).items():
                    where = child_body.key or child_body
                    below = self._group(child, where)
                    below.parents.add(name)
                    group.children.setdefault(child, where)
                    self._read(child, below, child_body)

    def _read_hosts(self, group: Group, node: Node) -> None:
        for pattern, body in values.mapping(node).items():
            where = body.key or body
            try:
                names = expand(pattern)
            except ValueError as error:
                raise where.error(f"bad host range {pattern!r}: {error}", "mend the range") from error
            own = {} if body.value is None else read(body, f"host {pattern}")
            for name in names:
                group.hosts.add(values.name(where, name, "host"))
                self.hosts.setdefault(name, []).append(own)


def _depths(groups: dict[str, Group]) -> dict[str, int]:
    """How far each group is below `all`, on its longest way; parents come before their children."""
    for name, group in groups.items():
        if name != "all" and not group.parents:
            group.parents.add("all")
        for child, where in group.children.items():
            if not groups[child].defined:
                known = [name for name, other in groups.items() if other.defined]
                raise where.error(f"child group {child!r} is not defined", suggestion(child, known))
    try:
        order = list(TopologicalSorter({name: group.parents for name, group in groups.items()}).static_order())
    except CycleError as error:
        cycle: list[str] = error.args[1]
        links = [groups[parent].children.get(child) for parent, child in pairwise(cycle)]
        where = next(link for link in links if link)
        way = " > ".join(cycle)
        raise where.error(f"the groups go round in a circle: {way}", "remove one of them as a child") from error
    depths = {"all": 0}
    for name in order:
        depths[name] = max((depths[parent] + 1 for parent in groups[name].parents), default=0)
    return {name: depths[name] for name in order}
