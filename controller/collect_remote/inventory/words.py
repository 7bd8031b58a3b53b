"""What is said of a word that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable


def suggestion(word: str, known: Iterable[str], most: int = 20) -> str:
    """The remedy for an unknown word: the nearest known one, and the (first) known ones."""
    import difflib  # for an error alone

    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    shown = ", ".join(names[:most]) + (f", and {len(names) - most} more" if len(names) > most else "")
    return (f"did you mean {near[0]!r}? " if near else "") + f"known: {shown}"
