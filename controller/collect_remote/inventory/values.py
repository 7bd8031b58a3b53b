"""The types that a value of the inventory may have. Every reader raises InventoryError at the value's position."""

from __future__ import annotations

import base64
import binascii
import re
import shlex
from pathlib import Path

from .document import Node

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LONGEST = 200  # of what becomes a directory; file systems take 255
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TRANSPORTS = ("paramiko", "openssh")
CONNECTIONS = {"ssh": "openssh", "paramiko_ssh": "paramiko", "paramiko": "paramiko"}
RUNTIMES = ("docker", "podman", "nerdctl")
_KEY_TYPE = re.compile(r"(?:ssh|ecdsa|sk)-[a-z0-9@.-]+")


def name(node: Node, word: str, what: str) -> str:
    """The name of a host, group or model: it becomes a directory, so plain characters only."""
    if not _NAME.fullmatch(word):
        remedy = "use letters, digits, '_', '.' and '-', beginning with a letter, a digit or '_'"
        if re.fullmatch(r"[A-Za-z0-9_.-]+:[0-9]+", word):
            remedy = "write the port below the host, as `port:`"
        raise node.error(f"{word!r} cannot be the name of a {what}", remedy)
    if len(word) > _LONGEST:
        raise node.error(f"the name of a {what} has {len(word)} characters", f"use at most {_LONGEST}")
    return word


def text(node: Node) -> str:
    """A non-empty text. Numbers and true/false are refused, because YAML may already have changed them."""
    if not isinstance(node.value, str):
        remedy = "quote it" if node.text else "write one plain text"
        raise node.error(f"{_subject(node)} must be text, not {node.kind}", remedy)
    if "{{" in node.value:
        raise node.error(f"{_subject(node)} holds a template", "write the value: templates are not evaluated")
    if not node.value.isprintable():
        raise node.error(f"{_subject(node)} holds a line break or a control character", "write one line of plain text")
    if not node.value.strip():
        raise node.error(
            f"{_subject(node)} is an empty text", "write a value, or nothing at all to take an inherited one back"
        )
    return node.value


def word(node: Node) -> str:
    """A text without blanks that no program can take for an option: an address, a user, a jump host."""
    value = text(node)
    if re.search(r"\s", value) or value.startswith("-"):
        raise node.error(f"{_subject(node)} cannot be {value!r}", "write it without blanks and without a leading '-'")
    return value


def whole(node: Node) -> int:
    """A whole number; quoted ones are taken, as Ansible does."""
    node.refuse_foreign()
    value = _number(node)
    if value is None:
        wrong = node.text or node.kind
        raise node.error(f"{_subject(node)} must be a whole number, not {wrong}", "write one, like 10")
    return value


def port(node: Node) -> int:
    value = _number(node)
    if value is None or not 1 <= value <= 65535:
        wrong = node.text or node.kind
        raise node.error(f"{_subject(node)} must be a number from 1 to 65535, not {wrong}", "write one, like 22")
    return value


def _number(node: Node) -> int | None:
    if isinstance(node.value, str) and re.fullmatch("-?[0-9]{1,9}", node.value):
        return int(node.value)
    return node.value if type(node.value) is int else None


def path(node: Node) -> Path:
    """A path here, relative to the file that says it; `~` is expanded."""
    try:
        return node.path.parent.resolve() / Path(text(node)).expanduser()
    except RuntimeError as error:
        raise node.error(f"{_subject(node)}: {error}", "write the path out") from error


def scripts(node: Node) -> tuple[str, ...]:
    """One script or a list of them."""
    return tuple(text(item) for item in (node.value if isinstance(node.value, tuple) else (node,)))


def environment(node: Node) -> dict[str, Node]:
    """Variables and their values as written; None for an empty value, which takes an inherited one back."""
    result: dict[str, Node] = {}
    for variable, value in mapping(node).items():
        if not _VARIABLE.fullmatch(variable):
            raise (value.key or value).error(
                f"{variable!r} is not the name of a variable", "use letters, digits and '_'"
            )
        if isinstance(value.value, bool | tuple | dict):
            raise value.error(f"variable {variable} must be text, not {value.kind}", "quote it")
        if "\0" in value.text:
            raise value.error(f"variable {variable} holds a NUL character", "remove it")
        result[variable] = value.meaning(None if value.value is None else value.text)
    return result


def host_key(node: Node) -> str:
    """A public key as "type base64", without a comment. The base64 part names its type again: both must agree."""
    fields = text(node).split()
    remedy = 'write it as in a .pub file or after the name in `ssh-keyscan HOST`: "ssh-ed25519 AAAA..."'
    if len(fields) < 2 or not _KEY_TYPE.fullmatch(fields[0]):
        raise node.error("this is not a public host key", remedy)
    try:
        blob = base64.b64decode(fields[1], validate=True)
    except binascii.Error as error:
        raise node.error(f"this host key is damaged: {error}", remedy) from error
    kind = blob[4 : 4 + int.from_bytes(blob[:4], "big")]
    if kind != fields[0].encode():
        raise node.error(f"this host key is damaged: it is not of type {fields[0]}", remedy)
    return f"{fields[0]} {fields[1]}"


def transport(node: Node) -> str:
    """What makes the connection."""
    value = text(node)
    if value not in TRANSPORTS:
        raise node.error(f"there is no transport {value!r}", f"write one of {', '.join(TRANSPORTS)}")
    return value


def container(node: Node) -> str:
    """A name or id, or "label:KEY=VALUE", where the value may be left out."""
    value = text(node)
    if value.startswith("label:"):
        if not re.fullmatch(r"label:[^\s=]+(=.*)?", value):
            raise node.error(f"{_subject(node)} names no label", "write label:KEY=VALUE, or label:KEY")
        return value
    if not _NAME.fullmatch(value):
        remedy = "write its name or id as `docker ps` shows it, or label:KEY=VALUE"
        raise node.error(f"{value!r} cannot be a container", remedy)
    return value


def container_runtime(node: Node) -> str:
    value = text(node)
    if value not in RUNTIMES:
        raise node.error(f"{value!r} is no container runtime that is known", f"write one of {', '.join(RUNTIMES)}")
    return value


def container_user(node: Node) -> str:
    """A name or number, with ":GROUP" behind it at will."""
    value = str(node.value) if type(node.value) is int else word(node)
    if not re.fullmatch(r"[A-Za-z0-9_][\w.-]*(:[\w.-]+)?", value):
        raise node.error(f"{value!r} cannot be a user of a container", "write a name or a number, or USER:GROUP")
    return value


def jump_of_arguments(node: Node) -> str:
    """The jump host of Ansible's ansible_ssh_common_args: `-J HOST` or `-o ProxyJump=HOST`, and nothing else."""
    try:
        words = shlex.split(text(node))
    except ValueError as error:
        raise node.error(f"{_subject(node)}: {error}", "mend the quotes") from error
    found = re.fullmatch(r"(?:-J ?|-o ?ProxyJump=)([^\s-]\S*)", " ".join(words))
    if not found:
        remedy = "write `jump: HOST`; other options of ssh belong in ~/.ssh/config, which is honoured"
        raise node.error(f"of {_subject(node)} only -J is understood, not {node.value!r}", remedy)
    return found[1]


def interpreter(node: Node) -> str | None:
    """A Python on the host; None for Ansible's `auto`, `auto_silent` and the like: it has to be found."""
    value = text(node)
    if re.fullmatch(r"auto(_legacy)?(_silent)?", value):
        return None
    by_env = re.fullmatch(r"/usr/bin/env\s+(\S+)", value)
    return by_env[1] if by_env else value


def connection(node: Node) -> str | None:
    """The transport of Ansible's ansible_connection; None for `smart`, which leaves it open."""
    value = text(node).removeprefix("ansible.builtin.")
    if value == "smart":
        return None
    if value not in CONNECTIONS:
        remedy = f"write one of {', '.join(CONNECTIONS)}, or leave it out: every host is reached by ssh"
        if value == "local":
            remedy = "reach this machine by ssh too, or name the host in an inventory for Ansible alone"
        elif value.rpartition(".")[2] in (*RUNTIMES, "docker_api"):
            remedy = "name the host that it runs on, with `container: NAME`"
        raise node.error(f"{_subject(node)} cannot be {node.value!r} here", remedy)
    return CONNECTIONS[value]


def mapping(node: Node) -> dict[str, Node]:
    if not isinstance(node.value, dict):
        node.refuse_foreign()
        raise node.error(f"{_subject(node)} must be a mapping, not {node.kind}", "write `key: value` lines below it")
    return node.value


def _subject(node: Node) -> str:
    return str(node.key.value) if node.key else "this item"
