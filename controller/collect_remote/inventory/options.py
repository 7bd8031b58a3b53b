"""What the value of an option must be: each check says it in words, or nothing when the value is that."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Callable, Sequence

from .document import Node

Check = Callable[[Node], str]
CALL = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
LONGEST = 64_000  # characters of a command: it is shown to the survey, as one argument of a program (128 KiB at most)


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
    return "" if is_path and node.value.isprintable() else "an absolute path on the host, of printable characters"


def relative(node: Node) -> str:
    """A file below the project."""
    is_name = isinstance(node.value, str) and node.value and not posixpath.isabs(node.value)
    return "" if is_name else "a path relative to the project"


def calls(node: Node) -> str:
    """Functions or methods, each with the module that it is imported from."""
    items = node.value if isinstance(node.value, tuple) else ()
    return "" if items and not any(map(call, items)) else "a list like [package.module:Class.method]"


def call(node: Node) -> str:
    named = isinstance(node.value, str) and CALL.fullmatch(node.value)
    return "" if named else "like package.module:Class.method"


def command(node: Node) -> str:
    """A list of words, or one text that is split as a shell would; no shell runs it."""
    try:
        words = words_of(node)
    except ValueError:
        words = []
    if not words or not words[0]:
        return "a list of words, or a command line without a shell's own signs"
    if any("\0" in word for word in words):
        return "words without a NUL character"
    return "" if len(json.dumps(words)) <= LONGEST else f"{LONGEST} characters at most (put it into a script)"


def words_of(node: Node) -> list[str]:
    """The words of a command, as they are written; ValueError for what is none."""
    if isinstance(node.value, str):
        return shlex.split(node.value)
    items = node.value if isinstance(node.value, tuple) else ()
    if any(not isinstance(item.value, str | int | float) for item in items):
        raise ValueError("a word of a command is a text or a number")
    return [item.value if isinstance(item.value, str) else item.text for item in items]


def one_of(names: Sequence[str]) -> Check:
    return lambda node: "" if node.value in names else f"one of {', '.join(names)}"
