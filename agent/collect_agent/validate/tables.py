"""CSV tables of a profile, read row by row and judged as they stream by; times as exact integers.

Times in the files are decimal microseconds, some with a trailing tab that stops spreadsheets from rounding.
A float of a microsecond epoch resolves to 0.25 us only, so that sums over many kernels drift by tens of
microseconds: here every time is an integer number of picoseconds.
"""

from __future__ import annotations

import csv
import io
from decimal import Decimal, InvalidOperation
from typing import Any, Dict, Iterator, List, Optional, Sequence

from ..trace.stream import Damage, text

PS_PER_US = 10**6
LINE_LIMIT = 1 << 24
LONGEST_NUMBER = 20  # digits; microseconds of the epoch have 16

csv.field_size_limit(LINE_LIMIT)  # call stacks of operator_details.csv pass the default of 128 KiB


def rows(raw: io.RawIOBase) -> Iterator[List[str]]:
    """The header, then every row, all of the header's length.

    Cells may hold line breaks (call stacks), lines may end in LF or CRLF. Raises Damage for a file that ends inside a
    line, holds NUL bytes or no UTF-8, has a malformed quote, a row of another length, or none: neither torch_npu nor
    msprof writes a table without rows.
    """
    guarded = _Guarded(raw)
    reader = csv.reader(text(guarded), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        if not header:
            raise Damage("is empty")
        if len(set(header)) < len(header):
            raise Damage("names a column twice")
        yield header
        width = len(header)
        for row in reader:
            if len(row) != width:
                raise Damage("has %d cells in line %d and %d columns" % (len(row), reader.line_num, width))
            yield row
        if guarded.last != b"\n":
            raise Damage("ends inside a line")
        if reader.line_num == 1:
            raise Damage("has a header and no rows")
    except csv.Error as error:
        raise Damage("is not a CSV table at line %d: %s" % (reader.line_num, error)) from error
    except UnicodeDecodeError as error:
        raise Damage("is not UTF-8 text behind line %d" % reader.line_num) from error


class _Guarded(io.RawIOBase):
    """The bytes of a table, looked at before they are taken apart: no NUL, no line without end."""

    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__()
        self.last = b""  # byte
        self._raw = raw
        self._line = 0  # bytes since the last line end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._raw.readinto(buffer) or 0
        data = bytes(memoryview(buffer)[:size])
        if b"\0" in data:
            raise Damage("holds NUL bytes")
        end = data.rfind(b"\n")
        self._line = self._line + size if end < 0 else size - 1 - end
        if self._line > LINE_LIMIT:
            raise Damage("has a line of more than %d characters" % LINE_LIMIT)
        self.last = data[-1:] or self.last
        return size


def columns(header: Sequence[str], names: Sequence[str]) -> Dict[str, int]:
    """Positions of `names` in `header`; those that are not there are left out."""
    return {name: header.index(name) for name in names if name in header}


def picoseconds(cell: str) -> int:
    """A cell of decimal microseconds as integer picoseconds, further digits cut off; Damage when it is no
    number.
    """
    cell = cell.strip()
    whole, _, fraction = cell.partition(".")
    if whole.isdecimal() and len(whole) < LONGEST_NUMBER and (not fraction or fraction.isdecimal()):
        return int(whole) * PS_PER_US + (int(fraction[:6].ljust(6, "0")) if fraction else 0)
    try:
        value = Decimal(cell)  # negative, or with an exponent
        if abs(value) < 10**LONGEST_NUMBER:
            return int(value * PS_PER_US)
    except (InvalidOperation, ValueError):
        pass
    raise Damage("holds %r where a time belongs" % cell[:40])


def whole_number(cell: str) -> Optional[int]:
    """A cell of decimal digits, else None."""
    cell = cell.strip()
    return int(cell) if cell.isdecimal() and len(cell) < LONGEST_NUMBER else None


def microseconds(ps: int) -> float:
    """For figures and messages only: a float of three decimals."""
    return round(ps / PS_PER_US, 3)
