"""What the inventory says, as plain data: hosts and the models that can be profiled on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .patterns import select
from .words import suggestion

if TYPE_CHECKING:
    from .document import Node


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model: how to get a profile out of it. Exactly one of `adapter` and `route` is set.

    `adapter` is "transformers", "llama", "diffusers" or the absolute path of a local .py file; it implies the
    template route. `options` go to the adapter or the route as they are (plain data, checked). `fallback`: the model
    as the template can run it, for when the way of a route gives no valid profile.
    """

    name: str
    adapter: str | None
    route: str | None
    options: Mapping[str, Any]
    fallback: ModelSpec | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """One host: how to reach it, its environment, its models.

    None means that the inventory does not say it: the default of ssh or of the host holds. `host_key` is a pinned
    public key, "type base64". `transport` is "paramiko" or "openssh", the system's ssh. `setup` are scripts on the host
    to source before anything else. `python` and `workdir` are paths on the host, `identity_file` is one here.
    `container` is the name or id of one on the host in which everything runs, or "label:KEY=VALUE"; then those paths
    are paths in it.
    """

    name: str
    address: str
    port: int | None
    user: str | None
    identity_file: Path | None
    jump: str | None
    host_key: str | None
    transport: str | None
    setup: tuple[str, ...]
    python: str | None
    env: Mapping[str, str]
    workdir: str | None
    container: str | None
    container_runtime: str | None
    container_user: str | None
    models: Mapping[str, ModelSpec]

    def model(self, name: str) -> ModelSpec:
        """The model called `name`. Raises UsageError, with the nearest name, when this host has none of it."""
        if name not in self.models:
            raise UsageError(
                f"host {self.name} has no model {name!r}",
                suggestion(name, self.models) if self.models else "add it under `models` in the inventory",
            )
        return self.models[name]


@dataclass(frozen=True, slots=True)
class Caution:
    """Something that is no mistake for certain, and that nobody should have to find out alone."""

    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """All hosts of one or several inventories, in their order.

    `groups` has the hosts of every group, those of its children included, a group's own before those of its children.
    `said` has for every host the values that hold, each with its place; what was taken back is there without a value.
    `places` are where the hosts were first named: file, line, column.
    """

    sources: tuple[Path, ...]
    by_name: Mapping[str, Host]
    groups: Mapping[str, tuple[str, ...]]
    said: Mapping[str, Mapping[str, Node]]
    places: Mapping[str, str]
    cautions: tuple[Caution, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(self.by_name)

    def host(self, name: str) -> Host:
        """The host called `name`. Raises UsageError, with the nearest name, when there is none."""
        if name not in self.by_name:
            where = ", ".join(map(str, self.sources))
            remedy = suggestion(name, self.by_name)
            if name in self.groups:
                remedy = f"it is a group: `--hosts {name}` means its hosts, where several can be asked; {remedy}"
            raise UsageError(f"there is no host {name!r} in {where}", remedy)
        return self.by_name[name]

    def select(self, pattern: str) -> tuple[Host, ...]:
        """The hosts that a pattern like `a2:&rack3:!ascend07` means, in the order of the inventory.

        Raises UsageError when it, or a part of it, means none.
        """
        return tuple(self.by_name[name] for name in select(pattern, self.hosts, self.groups))
