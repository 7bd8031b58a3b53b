"""The variables of a host or group: which keys there are, and how they are inherited."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from . import values
from .document import Node
from .hosts import Host, suggestion
from .models import ModelFields, specify

# The values of one `vars` block or host, or of several after inheritance. None takes an inherited value back.
Variables = dict[str, Any]

_PASSWORD = re.compile(r"(?:.*_)?(?:pass|passwd|password|passphrase)")
_REFUSED = {
    "ansible_group_priority": "let the depth of the groups decide, then their names",
}


def read(node: Node, owner: str) -> Variables:
    """Check one block of variables of `owner` ("host ascend01") and read its values. Raises InventoryError."""
    result: Variables = {}
    for key, value in values.mapping(node).items():
        where = value.key or value
        name = ALIASES.get(key, key)
        if key.startswith("x_"):
            continue
        if _PASSWORD.fullmatch(key):
            remedy = "remove it and use a key: `identity_file`, an agent, or ~/.ssh/config"
            raise where.error(f"no password is ever read from the inventory ({key} of {owner})", remedy)
        if key in _REFUSED:
            raise where.error(f"{key} of {owner} is not supported by this version", _REFUSED[key])
        if name not in KEYS:
            if key.startswith("ansible_"):
                continue
            remedy = f"{suggestion(key, KEYS)}; keys of other tools begin with x_"
            raise where.error(f"unknown key {key!r} of {owner}", remedy)
        if name in result:
            raise where.error(f"{owner} says {name} twice, here as {key}", "keep one of them")
        reader = READERS_OF_ALIASES.get(key) or KEYS[name]
        result[name] = None if value.value is None else reader(value)
    return result


def inherit(blocks: Iterable[Variables]) -> Variables:
    """The variables of one host from all blocks that apply to it, the strongest last.

    `env` is merged by variable, `models` by model and then by field; any other value replaces an inherited
    one.
    """
    result: Variables = {}
    for block in blocks:
        for key, value in block.items():
            if value is None:
                result.pop(key, None)
            elif key == "env":
                result[key] = _merged(result.get(key, {}), value)
            elif key == "models":
                result[key] = _merged_models(result.get(key, {}), value)
            else:
                result[key] = value
    return result


def host(name: str, variables: Variables, directory: Path) -> Host:
    """The host that its inherited variables describe. Raises InventoryError when a model does not add up."""
    models = variables.get("models", {})
    return Host(
        name=name,
        address=variables.get("address", name),
        port=variables.get("port"),
        user=variables.get("user"),
        identity_file=variables.get("identity_file"),
        jump=variables.get("jump"),
        host_key=variables.get("host_key"),
        transport=variables.get("transport", "paramiko"),
        setup=variables.get("setup", ()),
        python=variables.get("python"),
        env=variables.get("env", {}),
        workdir=variables.get("workdir"),
        container=variables.get("container"),
        container_runtime=variables.get("container_runtime"),
        container_user=variables.get("container_user"),
        models={model: specify(model, fields, directory) for model, fields in models.items()},
    )


def _models(node: Node) -> dict[str, ModelFields | None]:
    result: dict[str, ModelFields | None] = {}
    for model, value in values.mapping(node).items():
        where = value.key or value
        values.name(where, model, "model")
        result[model] = None if value.value is None else ModelFields(where, values.mapping(value))
    return result


def _merged(inherited: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**inherited, **own}.items() if value is not None}


def _merged_models(inherited: dict[str, ModelFields], own: dict[str, ModelFields | None]) -> dict[str, ModelFields]:
    result = dict(inherited)
    for model, said in own.items():
        if said is None:
            result.pop(model, None)
            continue
        before = inherited[model].fields if model in inherited else {}
        fields = {**before, **said.fields}
        present = {field: node for field, node in fields.items() if node.value is not None}
        result[model] = ModelFields(said.node, present)
    return result


KEYS: dict[str, Callable[[Node], Any]] = {
    "address": values.word,
    "port": values.port,
    "user": values.word,
    "identity_file": values.path,
    "jump": values.word,
    "host_key": values.host_key,
    "transport": values.transport,
    "setup": values.scripts,
    "python": values.text,
    "env": values.environment,
    "workdir": values.text,
    "container": values.container,
    "container_runtime": values.container_runtime,
    "container_user": values.container_user,
    "models": _models,
}
ALIASES = {
    "ansible_host": "address",
    "ansible_ssh_host": "address",
    "ansible_port": "port",
    "ansible_ssh_port": "port",
    "ansible_user": "user",
    "ansible_ssh_user": "user",
    "ansible_ssh_private_key_file": "identity_file",
    "ansible_private_key_file": "identity_file",
    "ansible_python_interpreter": "python",
    "ansible_ssh_common_args": "jump",
}
READERS_OF_ALIASES: dict[str, Callable[[Node], Any]] = {
    "ansible_python_interpreter": values.interpreter,
    "ansible_ssh_common_args": values.jump_of_arguments,
}
