"""What the inventory says, as plain data: hosts and the models that can be profiled on them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collect_remote.errors import UsageError


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model: how to get a profile out of it. Exactly one of `adapter` and `route` is set.

    `adapter` is "transformers", "llama", "diffusers" or the absolute path of a local .py file; it implies the
    template route. `options` go to the adapter as they are (plain data, checked).
    """

    name: str
    adapter: str | None
    route: str | None
    options: Mapping[str, Any]


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
    transport: str
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
class Inventory:
    """All hosts of one inventory file, in its order."""

    path: Path
    by_name: Mapping[str, Host]

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(self.by_name)

    def host(self, name: str) -> Host:
        """The host called `name`. Raises UsageError, with the nearest name, when there is none."""
        if name not in self.by_name:
            raise UsageError(f"there is no host {name!r} in {self.path}", suggestion(name, self.by_name))
        return self.by_name[name]


def suggestion(word: str, known: Iterable[str], most: int = 20) -> str:
    """The remedy for an unknown word: the nearest known one, and the (first) known ones."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    shown = ", ".join(names[:most]) + (f", and {len(names) - most} more" if len(names) > most else "")
    return (f"did you mean {near[0]!r}? " if near else "") + f"known: {shown}"
