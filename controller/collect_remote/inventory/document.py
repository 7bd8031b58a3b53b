"""A YAML file as plain nodes that remember where they stand, for complaints with file, line and column.

Only the graph of the file is built, by PyYAML's safe loader; no tag of it makes an object of any class.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.reader import ReaderError

from ..errors import InventoryError

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_COLLECTIONS = (f"{_TAG}map", f"{_TAG}seq")
_TEXT = tuple(f"{_TAG}{kind}" for kind in ("str", "timestamp", "value"))  # dates and `=` mean nothing here
_SCALARS = tuple(f"{_TAG}{kind}" for kind in ("null", "bool", "int", "float"))
_KEYS = (*_TEXT, f"{_TAG}bool", f"{_TAG}int", f"{_TAG}float")  # a host may be called 7, or on


@dataclass(frozen=True, slots=True)
class Foreign:
    """A tag of the file that has no meaning here, and its place."""

    tag: str
    line: int
    column: int


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One value of the file.

    `value` is None, bool, int, float, str, a tuple of nodes, or a mapping from key to node; what was checked has
    there what it means. `text` is a scalar as it was written. `key` is the node of the key that this value belongs
    to, where it belongs to one. `line` and `column` count from 1. `foreign` is the first tag in it that has no
    meaning here, like `!vault`: nobody may read such a value, and where nobody does it does no harm.
    """

    path: Path
    line: int
    column: int
    value: Any
    text: str = ""
    key: Node | None = None
    foreign: Foreign | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is written there."""
        return self.value is None and self.foreign is None

    @property
    def place(self) -> str:
        """Where it is said: the file, line and column of its key."""
        at = self.key or self
        return f"{at.path}:{at.line}:{at.column}"

    def meaning(self, value: Any) -> Node:
        """The same, with what it means as its value; `dataclasses.replace` takes four times as long."""
        return Node(self.path, self.line, self.column, value, self.text, self.key, self.foreign)

    def refuse_foreign(self) -> None:
        """Raises InventoryError when a tag in this value has no meaning here."""
        if self.foreign:
            at = replace(self, line=self.foreign.line, column=self.foreign.column)
            remedy = "leave the tag out and write the plain value"
            if self.foreign.tag == "!vault":
                remedy = "nothing encrypted is read: write the plain value; secrets do not belong here"
            raise at.error(f"the YAML tag {self.foreign.tag} is not supported", remedy)

    def error(self, message: str, remedy: str) -> InventoryError:
        """An error about this value, at its position."""
        return InventoryError(f"{self.path}:{self.line}:{self.column}: {message}", remedy)

    def plain(self) -> Any:
        """The value without positions: scalars, lists and dicts."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value

    @property
    def kind(self) -> str:
        """What the value is, in words."""
        names = {dict: "a mapping", tuple: "a list", bool: "true/false", type(None): "empty", str: "text"}
        return names.get(type(self.value), f"the number {self.text}")


def read(path: Path, remedy: str) -> Node | None:
    """The root node of a YAML (or JSON) file; None when it is empty.

    Raises InventoryError for anything that is not one well-formed document, with `remedy` where it cannot be read.
    """
    text = _text(path, remedy)
    try:
        root = _composed(text)
        return None if root is None else _Reader(path).node(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise InventoryError(f"{where}: broken YAML: {what}", _hint(what)) from error
    except ReaderError as error:
        line, column = _position(text, error.position)
        message = f"{path}:{line}:{column}: broken YAML: a control character"
        raise InventoryError(message, "remove that character") from error
    except RecursionError as error:
        raise InventoryError(f"{path}: the YAML is nested too deeply", "flatten it") from error


def _composed(text: str) -> yaml.Node | None:
    """By libyaml where PyYAML has it, which is many times as fast; what it complains of, PyYAML says in better words.

    The marks of both are the same.
    """
    fast = getattr(yaml, "CSafeLoader", None)
    if fast is not None:
        with contextlib.suppress(yaml.YAMLError):
            return yaml.compose(text, Loader=fast)
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _text(path: Path, remedy: str) -> str:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InventoryError(f"cannot read {path}: {error.strerror}", remedy) from error
    except UnicodeDecodeError as error:
        line, column = _position(error.object, error.start)
        raise InventoryError(f"{path}:{line}:{column}: this is not UTF-8", "save the file as UTF-8") from error
    if text.startswith("$ANSIBLE_VAULT;"):
        raise InventoryError(
            f"{path}:1:1: this file is encrypted by ansible-vault, and nothing encrypted is read",
            "keep it where only playbooks look, in the group_vars or host_vars beside them; what is needed here, plain",
        )
    if "\t" in text and _is_json(text):
        text = text.replace("\t", " ")  # JSON may be indented with tabs, YAML may not
    return text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class _Reader:
    """Turns PyYAML's node graph into ours. Aliases share one node; one that contains itself is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._done: dict[int, Node] = {}
        self._open: set[int] = set()

    def node(self, raw: yaml.Node, key: Node | None = None) -> Node:
        known = self._done.get(id(raw))
        if known:
            return replace(known, key=key)
        if id(raw) in self._open:
            raise self._at(raw, None).error("this alias refers to a value that contains it", "write the value out")
        self._open.add(id(raw))
        value, foreign = self._value(raw)
        self._open.discard(id(raw))
        text = raw.value if isinstance(raw, yaml.ScalarNode) and foreign is None else ""
        node = self._done[id(raw)] = self._at(raw, value, text, key, foreign)
        return node

    def _value(self, raw: yaml.Node) -> tuple[Any, Foreign | None]:
        known = _TEXT + _SCALARS if isinstance(raw, yaml.ScalarNode) else _COLLECTIONS
        if raw.tag not in known:
            here = self._at(raw, None)
            return None, Foreign(raw.tag, here.line, here.column)
        if isinstance(raw, yaml.ScalarNode):
            return self._scalar(raw), None
        if isinstance(raw, yaml.SequenceNode):
            items = tuple(self.node(item) for item in raw.value)
            return items, _first_foreign(items)
        members = self._mapping(raw)
        return members, _first_foreign(members.values())

    def _at(self, raw: yaml.Node, value: Any, *more: Any) -> Node:
        return Node(self.path, raw.start_mark.line + 1, raw.start_mark.column + 1, value, *more)

    def _scalar(self, raw: yaml.ScalarNode) -> Any:
        if raw.tag in _TEXT:
            return raw.value
        try:
            return SafeConstructor().construct_object(raw)
        except (ValueError, LookupError) as error:  # what PyYAML makes of `!!int x` and `!!bool x`
            kind = raw.tag.rpartition(":")[2]
            remedy = "leave the tag out or mend the value"
            raise self._at(raw, None).error(f"{raw.value!r} is no {kind}", remedy) from error

    def _mapping(self, raw: yaml.Node) -> dict[str, Node]:
        own: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for raw_key, raw_value in raw.value:
            key = self._at(raw_key, getattr(raw_key, "value", None))
            if raw_key.tag == _MERGE:
                for source in self._merge_sources(raw_value):
                    merged = {**source, **merged}
                continue
            if not isinstance(raw_key, yaml.ScalarNode) or raw_key.tag not in _KEYS:
                raise key.error("a key must be plain text", "quote it if it is meant as text")
            if key.value in own:
                first = own[key.value].key or own[key.value]
                raise key.error(f"duplicate key {key.value!r} (first in line {first.line})", "keep one of them")
            own[key.value] = self.node(raw_value, key)
        return {**merged, **own}

    def _merge_sources(self, raw: yaml.Node) -> list[dict[str, Node]]:
        value = self.node(raw)
        sources = value.value if isinstance(value.value, tuple) else (value,)
        for source in sources:
            source.refuse_foreign()
            if not isinstance(source.value, dict):
                raise source.error(f"`<<` merges mappings, this is {source.kind}", "point it at a mapping")
        return [source.value for source in sources]


def _first_foreign(nodes: Iterable[Node]) -> Foreign | None:
    return next((node.foreign for node in nodes if node.foreign), None)


def _position(text: str | bytes, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of the character (or byte) at `offset`."""
    newline: Any = "\n" if isinstance(text, str) else b"\n"
    before: Any = text[:offset]
    return before.count(newline) + 1, offset - before.rfind(newline)


def _hint(problem: str) -> str:
    if "\\t" in problem:
        return "indent with blanks, not with tabs"
    if "another document" in problem:
        return "keep one document in the file"
    if "mapping values are not allowed" in problem:
        return "check the indentation, and quote a value that holds a colon and a blank"
    return "check the indentation, quotes and brackets before this place"
