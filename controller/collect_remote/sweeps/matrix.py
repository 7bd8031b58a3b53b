"""What a sweep varies besides hosts: models, phases, and any option of a collection, from a YAML file.

models: [llama, flux]
phases: [prefill, decode]
steps: [10, 50]                            # any option of collect-remote by its name, one value or several
level: 2
exclude: [{model: flux, phase: decode}]    # cells that have all of these
include: [{model: llama, phase: both}]     # further ones, on every host
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import InventoryError
from ..inventory import Inventory
from ..inventory.document import Node, read
from ..inventory.words import suggestion
from ..request import Request
from .cells import product
from .plan import Wanted

LISTS = {"hosts": "host", "models": "model", "phases": "phase"}  # the plural of what has an option of its own
Named = Mapping[str, str]  # option without its dashes: value as it is written
ON, OFF = "", "\0"  # ... or what stands for a switch that is on, and off
MOST = 10_000  # combinations: nobody means more, and all are made before the first is run


@dataclass(frozen=True, slots=True)
class Matrix:
    """What varies, by the names of options, values as they are written. `hosts`: a pattern of the inventory."""

    hosts: str | None = None
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: tuple[Named, ...] = ()
    include: tuple[Named, ...] = ()

    def check(self, inventory: Inventory) -> None:
        """InventoryError where it leaves out or adds what is not there, and where it is more than anybody means."""
        combinations = math.prod(len(values) for values in self.axes.values())
        if combinations > MOST:
            raise InventoryError(
                f"the matrix has {combinations} combinations on every host: at most {MOST} are taken",
                "vary less at once, or name the cells that you mean below `include`",
            )
        for entry in self.exclude:
            for name in entry.keys() - {*self.axes, "host"}:
                raise InventoryError(
                    f"the matrix excludes cells by {name!r}, which it has no values of: none would be left out",
                    f"name the values of {name!r}, or exclude by {', '.join(['host', *self.axes])}",
                )
        own = {host.name for host in inventory.select(self.hosts or "all")}
        for entry in (*self.exclude, *self.include):
            if "host" in entry:
                inventory.host(entry["host"])
        for entry in self.exclude:
            if "model" in entry and not any(entry["model"] in host.models for host in inventory.by_name.values()):
                raise InventoryError(
                    f"the matrix excludes cells of model {entry['model']!r}, which no host has: none would be left out",
                    "see which models the hosts have: `collect-remote inventory`",
                )
        for entry in self.include:
            if entry.get("host", "") not in {"", *own}:
                raise InventoryError(
                    f"the matrix includes a cell on {entry['host']}, which is not one of its hosts",
                    "name it in `hosts` too",
                )

    def wanted(self, ask: Callable[[Sequence[str]], Request]) -> list[Wanted]:
        """What is asked of which hosts. `ask` makes a request of arguments; what it raises is raised."""
        found = []
        one: Named
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
    """As arguments of a command line; the parser of a cell takes `--no-` for a switch that is off."""
    return [_word(name, value) for name, value in one.items() if name != "host"]


def _word(name: str, value: str) -> str:
    return {ON: f"--{name}", OFF: f"--no-{name}"}.get(value, f"--{name}={value}")


def _name(one: Named, names: Iterable[str]) -> str:
    said = [(name, one[name]) for name in names if name not in LISTS.values()]
    return "".join(f" {name}={'off' if value == OFF else value or 'on'}" for name, value in said)


def load(path: Path, options: Mapping[str, bool]) -> Matrix:
    """Read a file. `options`: the names that an axis may have, and whether it is a switch.

    InventoryError with file, line and column.
    """
    root = read(path, "name the file of a matrix with --matrix")
    if root is None:
        raise InventoryError(f"{path}: the matrix is empty", "write what the sweep varies: `models: [a, b]`")
    root.refuse_foreign()
    said = _mapping(root)
    for name, node in said.items():
        if name not in (known := [*LISTS, "exclude", "include", *options]):
            raise (node.key or node).error(f"a matrix has no {name!r}", suggestion(name, known))
    hosts = ",".join(_values(said["hosts"])) if "hosts" in said else None
    axes = {
        LISTS.get(name, name): _values(node, options.get(name, False))
        for name, node in said.items()
        if name not in ("hosts", "exclude", "include")
    }
    cells = {**options, "host": False, "model": False, "phase": False}
    exclude = [_left_out(node, cells, axes) for node in _list(said.get("exclude"))]
    include = [_further(node, cells) for node in _list(said.get("include"))]
    return Matrix(hosts, axes, tuple(exclude), tuple(include))


def _left_out(node: Node, known: Mapping[str, bool], axes: Mapping[str, tuple[str, ...]]) -> Named:
    found = _named(node, known)
    for name in found.keys() & axes.keys():
        if found[name] not in axes[name]:
            value = _mapping(node)[name]
            raise value.error(
                f"the matrix has no {name} {value.text}: no cell would be left out", "name one of its values"
            )
    return found


def _further(node: Node, known: Mapping[str, bool]) -> Named:
    found = _named(node, known)
    if "model" not in found:
        raise node.error("a further cell needs a model", "write `- {model: llama, ...}`")
    return found


def _mapping(node: Node) -> dict[str, Node]:
    if not isinstance(node.value, dict):
        raise node.error(f"this must be a mapping, not {node.kind}", "write `name: value`")
    return node.value


def _list(node: Node | None) -> tuple[Node, ...]:
    if node is None:
        return ()
    if not isinstance(node.value, tuple):
        raise node.error(f"this must be a list, not {node.kind}", "write `- {model: llama}`, one line each")
    return node.value


def _values(node: Node, switch: bool = False) -> tuple[str, ...]:
    found = tuple(_value(entry, switch) for entry in (node.value if isinstance(node.value, tuple) else (node,)))
    if not found:
        raise node.error("an empty list leaves no cell", "name a value, or leave the line out")
    if len(set(found)) < len(found):
        raise node.error(f"{node.key.value if node.key else 'it'} has the same value twice", "name it once")
    return found


def _value(node: Node, switch: bool) -> str:
    if isinstance(node.value, (dict, tuple)) or not node.text:
        what = node.kind if isinstance(node.value, (dict, tuple)) else "empty"
        raise node.error(f"a value must be a word or a number, not {what}", "write one value, or a list of them")
    if not switch:
        return node.text
    if not isinstance(node.value, bool):
        raise node.error(f"{node.text!r} does not turn a switch on or off", "write true or false")
    return ON if node.value else OFF


def _named(node: Node, known: Mapping[str, bool]) -> Named:
    found = {}
    for name, value in _mapping(node).items():
        if name not in known:
            raise (value.key or value).error(f"there is no {name!r} in a cell", suggestion(name, known))
        found[name] = _value(value, known[name])
    return found
