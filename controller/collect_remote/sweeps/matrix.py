"""What a sweep varies besides hosts: models, phases, and any option of a collection, from a YAML file.

models: [llama, flux]
phases: [prefill, decode]
steps: [10, 50]                            # any option of collect-remote by its name, one value or several
level: 2
exclude: [{model: flux, phase: decode}]    # cells that have all of these
include: [{model: llama, phase: both}]     # further ones, on every host
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import InventoryError
from ..inventory.document import Node, read
from ..inventory.words import suggestion
from ..request import Request
from .cells import product
from .plan import Wanted

LISTS = {"hosts": "host", "models": "model", "phases": "phase"}  # the plural of what has an option of its own
Named = Mapping[str, str]  # option without its dashes: value as it is written; "" for a switch that is on
OFF = "\0"  # ... and this for one that is off


@dataclass(frozen=True, slots=True)
class Matrix:
    """What varies, by the names of options, values as they are written. `hosts`: a pattern of the inventory."""

    hosts: str | None = None
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: tuple[Named, ...] = ()
    include: tuple[Named, ...] = ()

    @property
    def hosts_named(self) -> list[str]:
        """The hosts that are left out somewhere, or added."""
        return [entry["host"] for entry in (*self.exclude, *self.include) if "host" in entry]

    def wanted(self, ask: Callable[[Sequence[str]], Request]) -> list[Wanted]:
        """What is asked of which hosts. `ask` makes a request of arguments; what it raises is raised."""
        found = []
        one: Named
        for entry in self.exclude:
            for name in entry.keys() - {*self.axes, "host"}:
                raise InventoryError(
                    f"the matrix excludes cells by {name!r}, which it has no values of: none would be left out",
                    f"name the values of {name!r}, or exclude by {', '.join(['host', *self.axes])}",
                )
        varied = [name for name, values in self.axes.items() if len(values) > 1]
        for one in product(self.axes):
            less = [entry for entry in self.exclude if all(one.get(n) == v for n, v in entry.items() if n != "host")]
            if all("host" in entry for entry in less):
                not_on = frozenset(entry["host"] for entry in less)
                found.append(Wanted(ask(_words(one)), _name(one, varied), not_on=not_on))
        for one in self.include:
            found.append(Wanted(ask(_words(one)), _name(one, one), only_on=one.get("host")))
        return found


def _words(one: Named) -> list[str]:
    """As arguments of a command line."""
    given = {name: value for name, value in one.items() if value != OFF and name != "host"}
    return [f"--{name}={value}" if value else f"--{name}" for name, value in given.items()]


def _name(one: Named, names: Iterable[str]) -> str:
    said = [(name, one[name]) for name in names if name not in LISTS.values()]
    return "".join(f" {name}={'off' if value == OFF else value or 'on'}" for name, value in said)


def load(path: Path, options: Iterable[str]) -> Matrix:
    """Read a file. `options`: the names that an axis may have. InventoryError with file, line and column."""
    root = read(path, "name the file of a matrix with --matrix")
    if root is None:
        raise InventoryError(f"{path}: the matrix is empty", "write what the sweep varies: `models: [a, b]`")
    root.refuse_foreign()
    known = [*options, "host", "model", "phase"]
    hosts, axes = None, {}
    exclude: tuple[Named, ...] = ()
    include: tuple[Named, ...] = ()
    for name, node in _mapping(root).items():
        if name == "hosts":
            hosts = ",".join(_values(node))
        elif name in ("exclude", "include"):
            found = tuple(_named(entry, known) for entry in _list(node))
            exclude, include = (found, include) if name == "exclude" else (exclude, found)
        else:
            axis = LISTS.get(name, name)
            if name not in (*LISTS, *options):
                raise (node.key or node).error(
                    f"a matrix has no {name!r}", suggestion(name, [*LISTS, "exclude", "include", *options])
                )
            axes[axis] = _values(node)
            if len(set(axes[axis])) < len(axes[axis]):
                raise node.error(f"{name} has the same value twice", "name it once")
    return Matrix(hosts, axes, exclude, include)


def _mapping(node: Node) -> dict[str, Node]:
    if not isinstance(node.value, dict):
        raise node.error(f"this must be a mapping, not {node.kind}", "write `name: value`")
    return node.value


def _list(node: Node) -> tuple[Node, ...]:
    if not isinstance(node.value, tuple):
        raise node.error(f"this must be a list, not {node.kind}", "write `- {model: llama}`, one line each")
    return node.value


def _values(node: Node) -> tuple[str, ...]:
    found = tuple(_value(entry) for entry in (node.value if isinstance(node.value, tuple) else (node,)))
    if not found:
        raise node.error("an empty list leaves no cell", "name a value, or leave the line out")
    return found


def _value(node: Node) -> str:
    if isinstance(node.value, bool):
        return "" if node.value else OFF
    if isinstance(node.value, (dict, tuple)) or node.value is None:
        raise node.error(f"a value must be a word or a number, not {node.kind}", "write one value, or a list of them")
    return node.text


def _named(node: Node, known: Iterable[str]) -> Named:
    found = {}
    for name, value in _mapping(node).items():
        if name not in known:
            raise (value.key or value).error(f"there is no {name!r} in a cell", suggestion(name, known))
        found[name] = _value(value)
    return found
