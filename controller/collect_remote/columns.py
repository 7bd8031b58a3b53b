"""Rows of a table, aligned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

GAP = "  "
WIDEST = 32  # what is longer moves the rest of its own line, and not every line


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A line a row, nothing behind its last word; all rows have as many cells. The last column may be of any width."""
    widths = [*widths_of([row[:-1] for row in rows]), 0]
    for row in rows:
        yield GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def widths_of(rows: Sequence[Sequence[str]]) -> list[int]:
    return [min(WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)]
