"""What is compared, in rounds that interleave it: only a ratio within a round means something on a noisy machine."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Side = Callable[[], object]  # a float that it returns is the seconds that count
Seconds = dict[str, float]


class Ratio(NamedTuple):
    """How many times as long `peer` takes as `ours`; `least` is what was set as a goal."""

    peer: str
    ours: str
    least: float


def rounds_of(sides: Mapping[str, Side], rounds: int, *, warm: bool = True) -> list[Seconds]:
    """Seconds of every side in every round; each has run once before, so that files are cached."""
    if warm:
        for side in sides.values():
            side()
    return [{name: timed(side) for name, side in sides.items()} for _ in range(rounds)]


def timed(side: Side) -> float:
    started = time.monotonic()
    told = side()
    return told if isinstance(told, float) else time.monotonic() - started


def command(*words: str, cwd: str | None = None) -> Side:
    """A process that has to end well."""

    def run() -> None:
        done = subprocess.run(words, cwd=cwd, capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"error: {words[0]} failed:\n{done.stderr.decode()}{done.stdout.decode()}")

    return run


def table(rounds: Sequence[Seconds], ratios: Sequence[Ratio], size: float = 0.0) -> str:
    """Seconds, MiB/s where the `size` in bytes is given, and ratios within a round."""
    lines = ["| | s | min - max |" + " MiB/s |" * bool(size), "| --- | ---: | ---: |" + " ---: |" * bool(size)]
    for name in rounds[0]:
        values = [seconds[name] for seconds in rounds]
        median = statistics.median(values)
        speed = f" {size / (1 << 20) / median:.0f} |" * bool(size)
        lines.append(f"| {name} | {median:.2f} | {min(values):.2f} - {max(values):.2f} |{speed}")
    lines += ["", "| ratio within a round | median | min - max | goal |", "| --- | ---: | ---: | ---: |"]
    for peer, ours, least in ratios:
        found = [seconds[peer] / seconds[ours] for seconds in rounds]
        lines.append(
            f"| {peer} / {ours} | {statistics.median(found):.2f} | {min(found):.2f} - {max(found):.2f} | {least:g} |"
        )
    return "\n".join(lines)
