"""The tree of groups and hosts that inventories write down: read as it stands there, and gathered from all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from . import values
from .document import Node
from .ranges import expand
from .variables import PRIORITY, Variables, read
from .words import suggestion

_PARTS = ("vars", "hosts", "children")


@dataclass(slots=True)
class Group:
    """One group, gathered from all places that speak of it.

    `hosts` and `children` are in the order in which they were named; `children` has the place that says so. `defined`
    stays false while a group is only named as a child. `priority` decides between equally deep groups, the higher one
    is stronger.
    """

    variables: list[Variables] = field(default_factory=list)
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, Node | None] = field(default_factory=dict)
    priority: int = 1
    defined: bool = False


class Tree:
    """Groups, and hosts with their own variables and the place where they were named first, as the files name them."""

    def __init__(self) -> None:
        self.groups = {"all": Group(defined=True), "ungrouped": Group(defined=True)}
        self.hosts: dict[str, list[Variables]] = {}
        self.places: dict[str, str] = {}
        self._seen: dict[tuple[str, int], Node] = {}  # keeps what it has seen, so that no other takes its identity

    def add(self, root: Node) -> None:
        """Everything that one file says. Raises InventoryError."""
        for name, body in values.mapping(root).items():
            where = body.key or body
            if name in _PARTS:
                raise where.error(f"{name!r} stands outside of any group", "indent it below `all:`")
            group = self._group(name, where)
            group.defined = True
            self._read(name, group, body)

    def close(self) -> None:
        """When all files are read: every group is below `all`, and every host in a group. Raises InventoryError."""
        top = self.groups["all"]
        below = {child for group in self.groups.values() for child in group.children}
        for name, group in self.groups.items():
            for child, where in group.children.items():
                if where and not self.groups[child].defined:
                    known = [name for name, other in self.groups.items() if other.defined]
                    raise where.error(f"child group {child!r} is not defined", suggestion(child, known))
        top.children = {"ungrouped": None, **top.children}
        for name in self.groups:
            if name != "all" and name not in below:
                top.children.setdefault(name, None)
        self._settle_ungrouped()

    def _settle_ungrouped(self) -> None:
        """`ungrouped` has those hosts that are in no group but `all`, whatever the files say."""
        ungrouped = self.groups["ungrouped"]
        others = [group for name, group in self.groups.items() if name not in ("all", "ungrouped")]
        grouped = {host for group in others for host in group.hosts}
        kept = [*ungrouped.hosts, *self.hosts]
        ungrouped.hosts = dict.fromkeys(host for host in kept if host not in grouped)

    def _group(self, name: str, where: Node) -> Group:
        values.name(where, name, "group")
        return self.groups.setdefault(name, Group())

    def _read(self, name: str, group: Group, body: Node) -> None:
        # an alias brings the same body back; reading it once is enough
        if body.empty or (name, id(body.value)) in self._seen:
            return
        self._seen[name, id(body.value)] = body
        group.defined = True
        for part, node in values.mapping(body).items():
            if part not in _PARTS:
                remedy = f"a group has vars, hosts and children; {suggestion(part, _PARTS)}"
                raise (node.key or node).error(f"unknown key {part!r} of group {name}", remedy)
            if node.empty:
                continue
            if part == "vars":
                self._read_variables(name, group, node)
            elif part == "hosts":
                self._read_hosts(group, node)
            else:
                self._read_children(name, group, values.mapping(node))

    def _read_variables(self, name: str, group: Group, node: Node) -> None:
        said = dict(values.mapping(node))
        if priority := said.pop(PRIORITY, None):
            group.priority = values.whole(priority)
        group.variables.append(read(node.meaning(said), f"group {name}"))

    def _read_children(self, name: str, group: Group, children: Mapping[str, Node]) -> None:
        for child, body in children.items():
            where = body.key or body
            if child == "ungrouped" and name != "all":
                remedy = "leave it out: it has the hosts that are in no other group"
                raise where.error(f"ungrouped cannot be a child of {name}", remedy)
            group.children.setdefault(child, where)
            self._read(child, self._group(child, where), body)

    def _read_hosts(self, group: Group, node: Node) -> None:
        for pattern, body in values.mapping(node).items():
            where = body.key or body
            try:
                names = expand(pattern)
            except ValueError as error:
                raise where.error(f"bad host range {pattern!r}: {error}", "mend the range") from error
            own = {} if body.empty else read(body, f"host {pattern}")
            for name in names:
                group.hosts[values.name(where, name, "host")] = None
                self.hosts.setdefault(name, []).append(own)
                self.places.setdefault(name, where.place)
