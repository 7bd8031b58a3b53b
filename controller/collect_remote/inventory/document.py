"""A YAML file as plain nodes that remember where they stand, for complaints with file, line and column.

Only the graph of the file is built, by PyYAML's safe loader; no tag of it makes an object of any class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.reader import ReaderError

from collect_remote.errors import InventoryError

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_COLLECTIONS = (f"{_TAG}map", f"{_TAG}seq")
_TEXT = tuple(f"{_TAG}{kind}" for kind in ("str", "timestamp", "value"))  # dates and `=` mean nothing here
_SCALARS = tuple(f"{_TAG}{kind}" for kind in ("null", "bool", "int", "float"))
_KEYS = (*_TEXT, f"{_TAG}bool", f"{_TAG}int", f"{_TAG}float")  # a host may be called 7, or on


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One value of the file.

    `value` is None, bool, int, float, str, a tuple of nodes, or a mapping from key to node. `text` is a
    scalar as it was written. `key` is the node of the key that this value belongs to, where it belongs to
    one. `line` and `column` count from 1.
    """

    path: Path
    line: int
    column: int
    value: Any
    text: str = ""
    key: Node | None = None

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


def read(path: Path) -> Node:
    """The root node of a YAML file. Raises InventoryError for anything that is not one well-formed document."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InventoryError(
            f"cannot read the inventory {path}: {error.strerror}",
            "give the path of an inventory with --inventory, or copy the example from the documentation",
        ) from error
    except UnicodeDecodeError as error:
        line, column = _position(error.object, error.start)
        raise InventoryError(f"{path}:{line}:{column}: this is not UTF-8", "save the file as UTF-8") from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            raise InventoryError(f"{path}: the inventory is empty", "write at least `all: {hosts: {NAME: }}`")
        return _Reader(path).node(root)
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
        here = self._at(raw, None)
        if id(raw) in self._open:
            raise here.error("this alias refers to a value that contains it", "write the value out")
        self._open.add(id(raw))
        if isinstance(raw, yaml.ScalarNode):
            node = replace(here, value=self._scalar(raw, here), text=raw.value, key=key)
        elif raw.tag not in _COLLECTIONS:
            raise here.error(f"the YAML tag {raw.tag} is not supported", "leave the tag out")
        elif isinstance(raw, yaml.SequenceNode):
            node = replace(here, value=tuple(self.node(item) for item in raw.value), key=key)
        else:
            node = replace(here, value=self._mapping(raw), key=key)
        self._open.discard(id(raw))
        self._done[id(raw)] = node
        return node

    def _at(self, raw: yaml.Node, value: Any) -> Node:
        return Node(self.path, raw.start_mark.line + 1, raw.start_mark.column + 1, value)

    def _scalar(self, raw: yaml.ScalarNode, here: Node) -> Any:
        if raw.tag in _TEXT:
            return raw.value
        if raw.tag not in _SCALARS:
            remedy = "leave the tag out and write the plain value; secrets do not belong here"
            raise here.error(f"the YAML tag {raw.tag} is not supported", remedy)
        try:
            return SafeConstructor().construct_object(raw)
        except (ValueError, LookupError) as error:  # what PyYAML makes of `!!int x` and `!!bool x`
            kind = raw.tag.rpartition(":")[2]
            raise here.error(f"{raw.value!r} is no {kind}", "leave the tag out or mend the value") from error

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
            if not isinstance(source.value, dict):
                raise source.error(f"`<<` merges mappings, this is {source.kind}", "point it at a mapping")
        return [source.value for source in sources]


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
