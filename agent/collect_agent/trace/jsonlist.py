"""A JSON list of any size, decoded to its closing bracket in constant memory."""

from __future__ import annotations

import io
import json
import re
from typing import Any, Iterator, List, Optional

from .stream import Damage, text

LARGEST_EVENT = 1 << 26
PIECE = 1 << 16  # characters decoded at once: what fits the caches is three times as fast as the whole
JOINTS = ("}, {", "},{")
LONGEST_PARTIAL_LITERAL = 16  # "-Infinity", "\\uD83D\\uDE00" and the like, cut by the end of the buffer
WHITESPACE = re.compile(r"[ \t\n\r]*")


def batches(raw: io.RawIOBase, chunk: int = PIECE, passed: int = 0) -> Iterator[List[Any]]:
    """The values of the JSON list in `raw`, some at a time, through a buffer of about `chunk` characters.

    Accepts exactly what `json.load` accepts, if the value is a list (and no event is larger than 64 MiB).
    Raises Damage for everything else, saying at which byte; `passed` bytes came before `raw`.
    """
    source = _Buffer(raw, chunk, passed)
    if source.peek() != "[":
        raise Damage("is empty" if source.at_end() else "is not a JSON list")
    source.skip(1)
    if source.peek() == "]":
        source.skip(1)
    else:
        while True:
            yield source.values()
            mark = source.peek()
            if mark not in (",", "]"):
                raise source.damage()
            source.skip(1)
            if mark == "]":
                break
    if source.peek():
        raise Damage("has data behind its closing bracket, at byte %d" % source.offset())


class _Buffer:
    """The text between the last event and the end of the chunk read last."""

    _decode = json.JSONDecoder().raw_decode
    _decode_list = json.JSONDecoder().decode

    def __init__(self, raw: io.RawIOBase, chunk: int, passed: int) -> None:
        self._text = text(raw)
        self._chunk = chunk
        self._buffer = ""
        self._at = 0
        self._passed = passed  # bytes before the buffer
        self._fresh = False  # no joint was tried in this buffer
        self._ended = False

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            self._at = WHITESPACE.match(self._buffer, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._more():
                return ""

    def skip(self, count: int) -> None:
        self._at += count

    def values(self) -> List[Any]:
        """The JSON values from the next character on: as many as one decode yields, at least one.

        What reads as a joint of two events may stand in a string, but then the text before it is no list of whole
        values, and decoding says so.
        """
        self.peek()
        if self._fresh:
            self._fresh = False
            cut = max(self._buffer.rfind(joint) for joint in JOINTS)
            if cut > self._at:
                try:
                    values: List[Any] = self._decode_list("[%s]" % self._buffer[self._at : cut + 1])
                except (ValueError, RecursionError):
                    return [self.value()]
                self._at = cut + 1
                return values
        return [self.value()]

    def value(self) -> Any:
        """The JSON value that begins at the next character."""
        self.peek()
        while True:
            try:
                value, end = self._decode(self._buffer, self._at)
            except (ValueError, RecursionError) as error:
                if not self._may_go_on(error) or not self._more():
                    raise self.damage(error) from error
                continue
            # A number near the end of the buffer may go on behind it: "0." decodes as 0.
            if end < len(self._buffer) - LONGEST_PARTIAL_LITERAL or not self._more():
                self._at = end
                return value

    def damage(self, error: Optional[Exception] = None) -> Damage:
        """What is wrong at the next character, or where `error` points."""
        if self._ended and (self._may_go_on(error) if error else self.at_end()):
            return Damage("is truncated (unexpected end at byte %d)" % (self._passed + _bytes(self._buffer)))
        position = getattr(error, "pos", self._at)
        reason = getattr(error, "msg", str(error)) if error else "Expecting ',' delimiter"
        return Damage("is not JSON at byte %d: %s" % (self._passed + _bytes(self._buffer[:position]), reason))

    def at_end(self) -> bool:
        return self._ended and self._at >= len(self._buffer)

    def offset(self) -> int:
        return self._passed + _bytes(self._buffer[: self._at])

    def _may_go_on(self, error: Exception) -> bool:
        """Whether `error` may come from the end of the buffer alone, so that more text can cure it."""
        if not isinstance(error, json.JSONDecodeError):
            return False
        if error.msg.startswith("Unterminated string"):
            return True
        return error.pos >= len(self._buffer) - LONGEST_PARTIAL_LITERAL

    def _more(self) -> bool:
        """Append a chunk, dropping what is behind us; False at the end of the file."""
        if self._ended:
            return False
        rest = self._buffer[self._at :]
        if len(rest) > LARGEST_EVENT:
            raise Damage("has an event of more than %d characters at byte %d" % (LARGEST_EVENT, self.offset()))
        try:
            # A long event costs a second decode for every doubling, not for every chunk.
            data = self._text.read(max(self._chunk, len(rest)))
        except UnicodeDecodeError as error:
            raise Damage("is not UTF-8 text behind byte %d" % self.offset()) from error
        if not data:
            self._ended = True
            return False
        self._passed += _bytes(self._buffer[: self._at])
        self._buffer, self._at, self._fresh = rest + data, 0, True
        return True


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8"))
