"""What somebody else's data must look like before they are used, and how their text becomes data. Pure.

A shape is a type (str, int, float: any finite number, bool, dict), a pattern that a text matches as a whole, a test,
`[shape]` for a list, `(shape, ...)` for a list of exactly these, `{name: shape}` for an object (others may be in it),
`{pattern: shape}` for one whose names all match, `Null(shape)` for what may be null, `Maybe(shape)` for what may be
missing too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

LARGEST = 1 << 63  # of any number; what is larger breaks arithmetic
ANY_NAME = re.compile(r"(?s).*")


class Null(NamedTuple):
    shape: Any


class Maybe(NamedTuple):
    shape: Any


_OR_NULL = (Null, Maybe)


class _Letters(dict[int, int]):
    """What stands for every character that was met."""

    def __missing__(self, code: int) -> int:
        return self.setdefault(code, code if chr(code).isprintable() else ord(" "))


_LETTERS = _Letters()


class TooDeep(ValueError):
    """JSON with more levels than can be read."""


def count(value: Any) -> bool:
    """A whole number from 0."""
    return type(value) is int and 0 <= value < LARGEST


def parsed(text: str) -> Any:
    """JSON as data, with strings that are fit for a terminal. ValueError for what is none."""
    try:
        return printable(json.loads(text))
    except RecursionError:
        raise TooDeep("it is nested too deep") from None


def printable(value: Any) -> Any:
    """The same with a space in the place of every control character, line end and half character in its strings.

    The names in objects stay as they are.
    """
    if isinstance(value, str):
        return value if value.isprintable() else value.translate(_LETTERS)
    if isinstance(value, dict):
        return {name: printable(part) for name, part in value.items()}
    if isinstance(value, list):
        return [printable(part) for part in value]
    return value


def misfit(value: Any, shape: Any) -> str | None:
    """The first part of `value` that has not its shape, like "devices[0].label"; "" is all of it; None when it fits."""
    where = _misfit(value, shape)
    return None if where is None else where.removeprefix(".")


def _misfit(value: Any, shape: Any) -> str | None:
    if isinstance(shape, type):
        return None if _is(value, shape) else ""
    if isinstance(shape, _OR_NULL):
        return None if value is None else _misfit(value, shape.shape)
    if isinstance(shape, dict):
        return _misfit_of_object(value, shape) if isinstance(value, dict) else ""
    if isinstance(shape, list | tuple):
        if not isinstance(value, list) or (isinstance(shape, tuple) and len(value) != len(shape)):
            return ""
        shapes = shape if isinstance(shape, tuple) else shape * len(value)
        for number, (part, wanted) in enumerate(zip(value, shapes, strict=True)):
            if (inner := _misfit(part, wanted)) is not None:
                return f"[{number}]{inner}"
        return None
    return None if _is(value, shape) else ""


def _misfit_of_object(value: Mapping[str, Any], shape: Mapping[Any, Any]) -> str | None:
    for name, wanted in shape.items():
        if isinstance(name, re.Pattern):
            if not all(name.fullmatch(key) for key in value):
                return ""
            fields = list(value)
        elif name in value:
            fields = [name]
        elif isinstance(wanted, Maybe):
            continue
        else:
            return f".{name}"
        for field in fields:
            if (inner := _misfit(value[field], wanted)) is not None:
                return f".{field}{inner}"
    return None


def _is(value: Any, shape: Any) -> bool:
    if isinstance(shape, re.Pattern):
        return isinstance(value, str) and shape.fullmatch(value) is not None
    if shape is int:
        return type(value) is int and abs(value) < LARGEST
    if shape is float:
        return type(value) in (int, float) and abs(value) < LARGEST  # which neither infinity nor NaN is
    return isinstance(value, shape) if isinstance(shape, type) else bool(shape(value))
