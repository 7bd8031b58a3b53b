"""Prompts for a server whose model we do not know: of a given length, and no two of a run that begin alike. Pure."""

from __future__ import annotations

from typing import List

FIRST, TOKENS = 50, 900  # ids that every vocabulary of a language model has


def prompts(count: int, tokens: int, before: int) -> List[List[int]]:
    """`count` prompts of `tokens` token ids, after `before` others.

    A server keeps what it has computed of a prompt, and computes the same beginning no second time.
    """
    return [prompt(before + number, tokens) for number in range(count)]


def prompt(number: int, tokens: int) -> List[int]:
    """The first two tokens tell the number of the prompt."""
    first, second = divmod(number, TOKENS)
    ids = [second, first % TOKENS] + [(number + 7 * at) % TOKENS for at in range(2, tokens)]
    return [FIRST + one for one in ids[:tokens]]
