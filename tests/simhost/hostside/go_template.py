"""As much of Go's text/template as people write behind ``--format``.

Fields, ``json``, ``index``, ``println``, ``join``, ``range``, ``if``, ``else`` and ``end``.
"""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[^\s()]+')
_ESCAPES = {"\\t": "\t", "\\n": "\n"}


class TemplateError(Exception):
    """A template that is not well formed, or asks for what is not there."""


def render(template: str, data: Any) -> str:
    """The text of a template for `data`: dicts, lists, strings, numbers, booleans, None.  Raises TemplateError."""
    parts = re.split(r"\{\{(-?.*?-?)\}\}", template, flags=re.DOTALL)
    if "{{" in "".join(parts[::2]):
        raise TemplateError("template: :1: unclosed action")
    for at in range(1, len(parts), 2):
        inner = parts[at]
        if inner.startswith("-"):
            parts[at - 1] = parts[at - 1].rstrip()
        if inner.endswith("-"):
            parts[at + 1] = parts[at + 1].lstrip()
        parts[at] = inner.strip("- ")
    text, at = _block(parts, 0, data, True)
    if at < len(parts):
        raise TemplateError("template: :1: unexpected {{end}}")
    return text


def _block(parts: list[str], at: int, data: Any, wanted: bool) -> tuple[str, int]:
    """Render from `at` up to the ``else`` or ``end`` that closes it; the text, and where that is."""
    text = ""
    while at < len(parts):
        if at % 2 == 0:
            text += parts[at]
            at += 1
            continue
        word, _, rest = parts[at].partition(" ")
        if word in ("end", "else"):
            return text, at
        if word not in ("range", "if"):
            text += _shown(_value(parts[at], data)) if wanted else ""
            at += 1
            continue
        value = _value(rest, data) if wanted else None
        rounds = (
            (value.values() if isinstance(value, dict) else value or []) if word == "range" else [data] * bool(value)
        )
        body, end = "", _block(parts, at + 1, data, False)[1]
        for item in rounds:
            body += _block(parts, at + 1, item, wanted)[0]
        if end < len(parts) and parts[end].startswith("else"):
            otherwise, end = _block(parts, end + 1, data, wanted and not body and not rounds)
            body = body or (otherwise if not rounds else "")
        if end >= len(parts):
            raise TemplateError("template: :1: unexpected EOF")
        text += body if wanted else ""
        at = end + 1
    return text, at


def _value(expression: str, data: Any) -> Any:
    words = _TOKEN.findall(expression)
    if not words:
        raise TemplateError("template: :1: missing value for command")
    first, *rest = words
    if first == "println":
        return " ".join(_shown(_operand(word, data)) for word in rest) + "\n"
    if first == "json":
        return json.dumps(_operand(rest[0], data), separators=(",", ":"))
    if first == "join":
        return _operand(rest[1], data).join(_operand(rest[0], data) or [])
    if first == "index":
        value = _operand(rest[0], data)
        for word in rest[1:]:
            key = _operand(word, data)
            value = (value or {}).get(key, "") if isinstance(value, dict) else value[int(key)]
        return value
    if rest and callable(method := _operand(first, data)):
        return method(*(_operand(word, data) for word in rest))
    if rest:
        raise TemplateError('template: :1: function "%s" not defined' % first)
    return _operand(first, data)


def _operand(word: str, data: Any) -> Any:
    if word.startswith('"'):
        return re.sub(r"\\.", lambda found: _ESCAPES.get(found.group(), found.group()[1:]), word[1:-1])
    if word.lstrip("-").isdigit():
        return int(word)
    if not word.startswith("."):
        raise TemplateError('template: :1: function "%s" not defined' % word)
    value, of_labels = data, False
    for name in filter(None, word.split(".")):
        if not isinstance(value, dict) or (name not in value and not of_labels):
            raise TemplateError('template: :1:2: executing "" at <%s>: map has no entry for key "%s"' % (word, name))
        value, of_labels = value.get(name), name == "Labels"
    return value


def _shown(value: Any) -> str:
    """As Go prints a value."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "<no value>"
    if isinstance(value, list):
        return "[" + " ".join(map(_shown, value)) + "]"
    if isinstance(value, dict):
        return "map[" + " ".join("%s:%s" % (key, _shown(value[key])) for key in sorted(value)) + "]"
    return str(value)
