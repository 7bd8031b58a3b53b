"""Host ranges as Ansible writes them: `ascend[01:16]`, `rack[a:c]`, `node[1:9:2]`. The last one is included."""

from __future__ import annotations

import itertools
import re
from string import ascii_letters

_RANGE = re.compile(r"\[([^\[\]:]+):([^\[\]:]+)(?::([^\[\]:]*))?\]")
MOST_NAMES = 65536


def expand(pattern: str) -> list[str]:
    """The names that `pattern` stands for, in order; a pattern without a range stands for itself.

    Numbers are zero-padded when the first one is. Raises ValueError with what is wrong and what to write.
    """
    parts = _RANGE.split(pattern)
    literals, ranges = parts[::4], list(zip(parts[1::4], parts[2::4], parts[3::4], strict=True))
    if any("[" in literal or "]" in literal for literal in literals):
        raise ValueError("write a range as [01:16], [a:c] or [1:9:2]")
    choices = [_members(*words) for words in ranges]
    count = 1
    for members in choices:
        count *= len(members)
        if count > MOST_NAMES:
            raise ValueError(f"that is more than {MOST_NAMES} names")
    tails = literals[1:]
    return [
        literals[0] + "".join(member + tail for member, tail in zip(combination, tails, strict=True))
        for combination in itertools.product(*choices)
    ]


def _members(first: str, last: str, step: str | None) -> list[str]:
    if step is not None and not (step.isascii() and step.isdigit() and int(step) > 0):
        raise ValueError(f"the step {step!r} is not a positive number")
    stride = int(step) if step else 1
    if all(word.isascii() and word.isdigit() and len(word) < 10 for word in (first, last)):
        padded = len(first) > 1 and first.startswith("0")
        if padded and len(first) != len(last):
            raise ValueError(f"{first} and {last} must have the same number of digits")
        numbers = range(int(first), int(last) + 1, stride)
        if not numbers:
            raise ValueError(f"{last} comes before {first}")
        if len(numbers) > MOST_NAMES:
            raise ValueError(f"that is more than {MOST_NAMES} names")
        return [str(number).zfill(len(first) if padded else 0) for number in numbers]
    if all(len(word) == 1 and word in ascii_letters for word in (first, last)):
        letters = ascii_letters[ascii_letters.index(first) : ascii_letters.index(last) + 1 : stride]
        if not letters:
            raise ValueError(f"{last} comes before {first}")
        return list(letters)
    raise ValueError(f"{first} and {last} are neither two numbers nor two letters")
