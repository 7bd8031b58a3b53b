"""The end of a sweep as text for a person: a table, who is slower, what went wrong, and the last line. Pure."""

from __future__ import annotations

import bisect
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..cli.say import page
from ..columns import GAP, aligned, widths_of
from ..errors import one_line
from .cells import Progress
from .peers import Finding
from .report import counts, error, exit_code

_HEADING = ("HOST", "MODEL", "PHASE", "STATE", "STEP (ms)", "COMP %", "COMM %", "FREE %", "SLOWER")
_TOP = 3  # kernels of a row
_NARROWEST = 12  # characters of a kernel's name
_MESSAGES = 5  # different ones of one cause
_NAMED = 20  # cells that were not run
_WORDS = {"pending": "not run", "running": "not ended"}


def table(cells: Sequence[Progress], findings: Sequence[Finding], columns: int = 120) -> str:
    """All of it, in lines that fit `columns` characters where their content can be cut or wrapped."""
    parts = [
        *([_rows(cells, findings, columns)] if cells else []),
        *([_slower(findings, columns)] if findings else []),
        *_causes(cells, columns),
        last_line(cells),
    ]
    return "\n".join(parts) + "\n"


def last_line(cells: Sequence[Progress]) -> str:
    """From the states and nothing else."""
    found = counts(cells)
    if exit_code(cells) == 0:
        return f"{found['valid']} of {found['cells']} cells valid"
    failed, left = found["failed"], found["running"] + found["pending"]
    parts = [*([f"{failed} failed"] if failed else []), *([f"{left} not run to their end"] if left else [])]
    return f"FAILED {failed + left} of {found['cells']} cells: {', '.join(parts)}"


def _rows(cells: Sequence[Progress], findings: Sequence[Finding], columns: int) -> str:
    """A row for every cell and window; of several ranks it shows the slowest, for which the others wait."""
    marks: dict[tuple[str, str], float] = {}
    for one in (one for finding in findings for one in finding.evidence):
        marks[one.key, one.phase] = max(one.ratio, marks.get((one.key, one.phase), 0.0))
    rows: list[tuple[tuple[str, ...], list[tuple[str, str]]]] = [(_HEADING, [("TOP KERNELS", "")])]
    for progress in cells:
        cell = progress.cell
        phase = cell.key.removeprefix(f"{cell.host}/{cell.model}/")
        state = _WORDS.get(progress.state, progress.state)
        for window, profile in _slowest_ranks(progress).items() or [("", {})]:
            name = phase if window in ("", cell.phase) or cell.phase == "default" else f"{phase}: {window}"
            mark = marks.get((cell.key, window))
            slow = f"{mark:.2f} x" if mark else ""
            rows.append(((cell.host, cell.model, name, state, *_figures(profile), slow), _top(profile)))
    room = columns - sum(len(GAP) + width for width in widths_of([row for row, _ in rows]))
    return "".join(f"{line}\n" for line in aligned([(*row, _joined(top, room)) for row, top in rows]))


def _slowest_ranks(progress: Progress) -> dict[str, dict[str, Any]]:
    """{window: the profile of the rank with the longest steps}; nothing of a cell that has none."""
    found: dict[str, dict[str, Any]] = {}
    for profile in (progress.outcome.summary or {}).get("profiles", []) if progress.outcome else []:
        before = found.get(profile["phase"])
        if before is None or _step_time(profile) > _step_time(before):
            found[profile["phase"]] = profile
    return found


def _step_time(profile: Mapping[str, Any]) -> float:
    return float(sum(steps["count"] * steps["median_ms"] for steps in profile["steps"].values()))


def _figures(profile: Mapping[str, Any]) -> tuple[str, ...]:
    steps = profile.get("steps") or {}
    kinds = [f"{kind} " if len(steps) > 1 else "" for kind in steps]
    step = ", ".join(f"{kind}{of['median_ms']:.2f}" for kind, of in zip(kinds, steps.values(), strict=True))
    times = profile.get("times") or {}
    shares = (times.get(f"{part}_pct") for part in ("computing", "communication", "free"))
    return (step or "-", *("-" if share is None else f"{share:.1f}" for share in shares))


def _top(profile: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names, and their shares of the kernels' time."""
    kernels = (profile.get("kernels") or {}).get("top", [])[:_TOP]
    return [(kernel["name"], f" {kernel['share_pct'] or 0:.0f} %") for kernel in kernels]


def _joined(top: Sequence[tuple[str, str]], room: int) -> str:
    """In one line, names cut alike as far as the room asks for it; fewer, or none, where that is not enough."""
    longest = max((len(name) for name, _ in top), default=0)
    widths = range(_NARROWEST, max(longest, _NARROWEST) + 1)
    for count in range(len(top), 0, -1):
        fitting = bisect.bisect_right(widths, room, key=lambda width: len(_line(top[:count], width)))
        if fitting:
            return _line(top[:count], widths[fitting - 1])
    return ""


def _line(top: Sequence[tuple[str, str]], width: int) -> str:
    return ", ".join(_cut(name, width) + share for name, share in top)


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else name[: width - 2] + ".."


def _slower(findings: Sequence[Finding], columns: int) -> str:
    lines = [f"slower than their peers: {len(findings)} host{'s' * (len(findings) != 1)}"]
    lines += [_wrapped(f"{finding.host}: {finding.why}", columns) for finding in findings]
    return "\n".join(lines) + "\n"


def _causes(cells: Sequence[Progress], columns: int) -> Iterator[str]:
    """A paragraph for every cause, the most frequent first, and one for what was not run."""
    causes: dict[tuple[str, str], list[Progress]] = defaultdict(list)
    unheard = []
    for progress in cells:
        told = error(progress)
        if told is not None:
            causes[told["kind"], told["entry"]].append(progress)
        elif progress.state != "valid":
            unheard.append(progress.cell.key)
    for (kind, entry), failed in sorted(causes.items(), key=lambda item: (-len(item[1]), item[0])):
        yield "\n".join(_cause(kind, entry, failed, columns)) + "\n"
    if unheard:
        more = [f"and {len(unheard) - _NAMED} more"] if len(unheard) > _NAMED else []
        names = _wrapped(", ".join(unheard[:_NAMED] + more), columns)
        yield f"not run to their end: {_many(len(unheard), 'cell')}\n{names}\n"


def _cause(kind: str, entry: str, failed: Sequence[Progress], columns: int) -> Iterator[str]:
    hosts: dict[tuple[str, str], list[str]] = defaultdict(list)
    for progress in failed:
        told = error(progress) or {}
        hosts[one_line(told["message"]), one_line(told["remedy"])].append(progress.cell.host)
    everyone = {host for of_one in hosts.values() for host in of_one}
    yield f"{kind}: {_many(len(failed), 'cell')} on {_many(len(everyone), 'host')}"
    said = ""
    for (message, remedy), whose in list(hosts.items())[:_MESSAGES]:
        yield _wrapped(f"{message} ({_names(whose)})", columns)
        if remedy and remedy != said:
            yield _wrapped(f"try: {remedy}", columns, 4)
            said = remedy
    rest = [host for of_one in list(hosts.values())[_MESSAGES:] for host in of_one]
    if rest:
        yield _wrapped(f"alike: {_names(rest)}", columns)
    yield f"    see: {page(entry)}"


def _names(hosts: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(hosts))


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _wrapped(text: str, columns: int, indent: int = 2) -> str:
    return textwrap.fill(
        text,
        max(columns, 40),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
