"""What the value of an option must be: each check says it in words, or nothing when the value is that."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Sequence

from .document import Node

Check = Callable[[Node], str]


def text(node: Node) -> str:
    return "" if isinstance(node.value, str) and node.value else "text"


def mapping(node: Node) -> str:
    return "" if isinstance(node.value, dict) and node.value else "a mapping"


def count(node: Node) -> str:
    return "" if type(node.value) is int and node.value >= 1 else "a whole number from 1"


def number(node: Node) -> str:
    return "" if type(node.value) in (int, float) else "a number"


def directory(node: Node) -> str:
    """On the host."""
    is_path = isinstance(node.value, str) and (posixpath.isabs(node.value) or node.value.startswith("~/"))
    return "" if is_path else "an absolute path on the host"


def relative(node: Node) -> str:
    """A file below the project."""
    is_name = isinstance(node.value, str) and node.value and not posixpath.isabs(node.value)
    return "" if is_name else "a path relative to the project"


def texts(node: Node) -> str:
    items = node.value if isinstance(node.value, tuple) else ()
    return "" if items and all(isinstance(item.value, str) and item.value for item in items) else "a list of texts"


def command(node: Node) -> str:
    """A list of words, or one text that is split as a shell would; no shell runs it."""
    words = "a list of words, or a command line without a shell's own signs"
    if isinstance(node.value, str):
        try:
            return "" if shlex.split(node.value) else words
        except ValueError:
            return words
    items = node.value if isinstance(node.value, tuple) else ()
    return "" if items and all(isinstance(item.value, str | int | float) for item in items) else words


def one_of(names: Sequence[str]) -> Check:
    return lambda node: "" if node.value in names else f"one of {', '.join(names)}"
