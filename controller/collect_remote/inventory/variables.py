"""The variables of a host or group: which keys there are, and how they are inherited."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import values
from .document import Node
from .hosts import Host
from .models import specify
from .words import suggestion

# The values of one `vars` block, host or file, or of several after inheritance, each where it was said; the `value` of
# a node is what was read from it, None where it takes an inherited one back.
Variables = dict[str, Node]

PRIORITY = "ansible_group_priority"
_PASSWORD = re.compile(r"(?:.*_)?(?:pass|passwd|password|passphrase)")
_REFUSED = {
    PRIORITY: "write it below `vars` of a group, in the inventory itself: it decides the order of the groups",
    "ansible_private_key": "put the key into a file, and name that as `identity_file`",
    "ansible_ssh_private_key": "put the key into a file, and name that as `identity_file`",
    "ansible_paramiko_proxy_command": "write `jump: HOST`, or a ProxyCommand into ~/.ssh/config",
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
            raise where.error(f"{key} of {owner} cannot be honoured", _REFUSED[key])
        if name not in KEYS:
            if key.startswith("ansible_"):
                continue
            remedy = f"{suggestion(key, KEYS)}; keys of other tools begin with x_"
            raise where.error(f"unknown key {key!r} of {owner}", remedy)
        if name in result:
            raise where.error(f"{owner} says {name} twice, here as {key}", "keep one of them")
        value.refuse_foreign()
        reader = READERS_OF_ALIASES.get(key) or KEYS[name]
        result[name] = value.meaning(None if value.value is None else reader(value))
    return result


def inherit(blocks: Iterable[Variables]) -> Variables:
    """The variables of one host from all blocks that apply to it, the strongest last.

    `env` is merged by variable, `models` by model and then by field; any other value replaces an inherited one.
    """
    result: Variables = {}
    for block in blocks:
        for key, node in block.items():
            result[key] = _merged(result.get(key), node, MERGED.get(key, 0))
    return result


def _merged(inherited: Node | None, own: Node, levels: int) -> Node:
    """`own` over `inherited`: mappings are merged for so many levels. An empty value takes the inherited one back."""
    if not levels or inherited is None or inherited.value is None or own.value is None:
        return own
    below = {key: _merged(inherited.value.get(key), node, levels - 1) for key, node in own.value.items()}
    return own.meaning({**inherited.value, **below})


def present(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """Those that were not taken back."""
    return {key: node for key, node in nodes.items() if node.value is not None}


def host(name: str, variables: Variables) -> Host:
    """The host that its inherited variables describe. Raises InventoryError when a model does not add up."""
    said = {key: node.value for key, node in present(variables).items()}
    return Host(
        name=name,
        address=said.get("address", name),
        port=said.get("port"),
        user=said.get("user"),
        identity_file=said.get("identity_file"),
        jump=said.get("jump"),
        host_key=said.get("host_key"),
        transport=said.get("transport"),
        setup=said.get("setup", ()),
        python=said.get("python"),
        env={variable: node.value for variable, node in present(said.get("env", {})).items()},
        workdir=said.get("workdir"),
        container=said.get("container"),
        container_runtime=said.get("container_runtime"),
        container_user=said.get("container_user"),
        models={model: specify(model, node) for model, node in present(said.get("models", {})).items()},
    )


def _models(node: Node) -> dict[str, Node]:
    for model, value in values.mapping(node).items():
        values.name(value.key or value, model, "model")
        if value.value is not None:
            values.mapping(value)
    return values.mapping(node)


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
SSH_ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
MERGED = {"env": 1, "models": 2}  # by how many levels
ALIASES = {
    **{
        f"ansible_{connection}{word}": key
        for connection in ("", "ssh_", "paramiko_")
        for word, key in (
            ("host", "address"),
            ("port", "port"),
            ("user", "user"),
            ("private_key_file", "identity_file"),
        )
    },
    "ansible_python_interpreter": "python",
    "ansible_connection": "transport",
    **dict.fromkeys(SSH_ARGUMENTS, "jump"),
}
READERS_OF_ALIASES: dict[str, Callable[[Node], Any]] = {
    "ansible_python_interpreter": values.interpreter,
    "ansible_connection": values.connection,
    **dict.fromkeys(SSH_ARGUMENTS, values.jump_of_arguments),
}
