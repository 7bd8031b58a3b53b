"""Hosts that are slower than their peers, and the evidence. Pure.

Peers are other hosts with the same model (its parameters too), request, phase, rank and name of chip; of the same
releases where there are enough, for kernels change with them. Compared are the median step and the mean call of every
kernel that matters. Collectives are not: they last as long as the slowest rank lets the others wait.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from collect_agent.validate.kernels import COMMUNICATION_CORES

from .cells import Progress, asked_for

MIN_PEERS = 4  # with fewer neither a median nor a spread says much
# Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993): 0.6745 makes a MAD comparable with a standard
# deviation of normal data, and beyond 3.5 of these a value is called an outlier.
Z_SCALE, Z_LIMIT = 0.6745, 3.5
# msprof-analyze's slow rank analysis lets the ranks of one job differ by 5 %; these are different runs too.
RATIO_LIMIT = 1.10
MAD_FLOOR = 0.01  # of the median: peers that happen to agree to the last digit make nobody an outlier
SHARE_PCT = 1.0  # of its kernels' time: what takes less is not worth a look
BROAD, BROAD_LEAST = 0.5, 3  # part and number of its figures that make it the host, and not some kernels
RELEASES = ("cann", "torch", "torch_npu", "transformers", "diffusers")  # those that decide how fast it is


class Figure(NamedTuple):
    """What was measured; one that does not `matter` is there for others to be held against."""

    value: float
    matters: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """One profile: whose it is, whom it may be compared with (`group`), and `figures`, {(what, unit): figure}."""

    host: str
    key: str
    model: str
    phase: str
    rank: int
    device: str | None
    group: Hashable
    releases: tuple[str | None, ...]
    figures: Mapping[tuple[str, str], Figure]
    free_pct: float | None = None


@dataclass(frozen=True, slots=True)
class Deviation:
    """One figure that stands out: `value` and its peers' `median` in `unit`, the modified z-score, `why` in words."""

    key: str
    model: str
    phase: str
    rank: int
    device: str | None
    what: str
    unit: str
    value: float
    median: float
    ratio: float
    z: float
    peers: int
    why: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A slower host. What stands out most, in the words and numbers of its first `evidence`; steps come before kernels.

    `what` is "most figures" where it is the host (its clock, its power, another bin of the chip), not single kernels;
    then `ratio` is the median of all that is in the evidence.
    """

    host: str
    what: str
    unit: str
    value: float
    median: float
    ratio: float
    z: float
    peers: int
    why: str
    evidence: tuple[Deviation, ...]


def rows(cells: Iterable[Progress]) -> list[Row]:
    """What can be compared: every profile of every valid cell."""
    return [
        _row(progress, profile)
        for progress in cells
        if progress.state == "valid" and progress.outcome is not None and progress.outcome.summary
        for profile in progress.outcome.summary["profiles"]
    ]


def _row(progress: Progress, profile: Mapping[str, Any]) -> Row:
    cell, outcome = progress.cell, progress.outcome
    asked = tuple(map(str, asked_for(cell.request).values()))
    chip = profile["device_name"] or profile["chip"]
    versions = outcome.versions if outcome else {}
    return Row(
        cell.host,
        cell.key,
        cell.model,
        profile["phase"],
        profile["rank"],
        profile["device"],
        (cell.model, cell.model_digest, asked, profile["phase"], profile["rank"], chip),
        tuple(versions.get(name) for name in RELEASES),
        _figures(profile),
        profile["times"]["free_pct"] if profile["times"] else None,
    )


def _figures(profile: Mapping[str, Any]) -> dict[tuple[str, str], Figure]:
    kinds = profile["steps"]
    figures = {
        (f"{kind} step" if len(kinds) > 1 else "step", "ms"): Figure(steps["median_ms"])
        for kind, steps in kinds.items()
    }
    for kernel in profile["kernels"]["top"] if profile["kernels"] else ():
        if not (kernel["core"] in COMMUNICATION_CORES or kernel["name"].startswith("hcom_")):
            figures[kernel["name"], "us"] = Figure(kernel["mean_us"], (kernel["share_pct"] or 0) >= SHARE_PCT)
    return figures


def slower(rows: Iterable[Row]) -> list[Finding]:
    """A finding for every host that is slower, in the order of their names."""
    groups = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    evidence: dict[str, list[Deviation]] = defaultdict(list)
    compared: Counter[str] = Counter()
    for group in groups.values():
        pools = _pools(group)
        for row in group:
            count, found = _judge(row, pools)
            compared[row.host] += count
            evidence[row.host] += _explained(row, group, count, found)
    return [_finding(host, found, compared[host]) for host, found in sorted(evidence.items()) if found]


class _Pool:
    """What some hosts have measured of one figure. `hosts`: how many there are, with and without it."""

    def __init__(self, measured: Iterable[tuple[float, str]], hosts: int) -> None:
        self._ordered = sorted(measured)
        self._rows = Counter(host for _, host in self._ordered)
        self._hosts = hosts

    def peers(self, host: str) -> int:
        """Others that have measured it; 0 for too few, or not the most of them."""
        others = len(self._rows) - (host in self._rows)
        return others if others >= MIN_PEERS and 2 * others >= self._hosts - 1 else 0

    def outlying(self, value: float, host: str) -> tuple[float, float, float] | None:
        """(the others' median, ratio to it, modified z-score) of a value that is beyond both limits."""
        # Without its own the others' median is at least this: most values need no second look.
        others = len(self._ordered) - self._rows[host]
        if value <= RATIO_LIMIT * self._ordered[(others - 1) // 2][0]:
            return None
        values = [other for other, whose in self._ordered if whose != host]
        median = statistics.median(values)
        if median <= 0 or value <= RATIO_LIMIT * median:
            return None
        mad = statistics.median(abs(other - median) for other in values)
        z = Z_SCALE * (value - median) / max(mad, MAD_FLOOR * median)
        return (median, value / median, z) if z > Z_LIMIT else None


_Pools = dict[tuple[tuple[str, str], tuple[str | None, ...] | None], _Pool]


def _pools(group: Sequence[Row]) -> _Pools:
    """By figure, of every set of releases and (None) of all of them."""
    measured = defaultdict(list)
    hosts = defaultdict(set)
    for row in group:
        for releases in (row.releases, None):
            hosts[releases].add(row.host)
            for what, figure in row.figures.items():
                measured[what, releases].append((figure.value, row.host))
    return {(what, releases): _Pool(of, len(hosts[releases])) for (what, releases), of in measured.items()}


class _Outlier(NamedTuple):
    what: str
    unit: str
    value: float
    median: float
    ratio: float
    z: float
    peers: int
    mixed: bool  # its peers have other releases too


def _judge(row: Row, pools: _Pools) -> tuple[int, list[_Outlier]]:
    """How many of its figures could be compared, and those that stand out."""
    compared, found = 0, []
    for (what, unit), (value, matters) in row.figures.items():
        if not matters:
            continue
        alike, all_of_them = pools[(what, unit), row.releases], pools[(what, unit), None]
        pool = alike if alike.peers(row.host) else all_of_them
        peers = pool.peers(row.host)
        compared += bool(peers)
        outlying = pool.outlying(value, row.host) if peers else None
        if outlying:
            found.append(_Outlier(what, unit, value, *outlying, peers, pool is not alike))
    return compared, found


def _explained(row: Row, group: Sequence[Row], compared: int, found: Sequence[_Outlier]) -> list[Deviation]:
    steps = sum(unit == "ms" for _, unit in row.figures)
    only_steps = compared > steps and all(outlier.unit == "ms" for outlier in found)
    return [
        Deviation(
            *(row.key, row.model, row.phase, row.rank, row.device),
            **{name: value for name, value in outlier._asdict().items() if name != "mixed"},
            why=_why(outlier) + (_mixed(row, group) if outlier.mixed else "") + (_between(row, group) * only_steps),
        )
        for outlier in found
    ]


def _why(outlier: _Outlier) -> str:
    unit = "us a call" if outlier.unit == "us" else outlier.unit
    return (
        f"{outlier.what}: {_short(outlier.value)} {unit} against {_short(outlier.median)} {outlier.unit}, "
        f"{outlier.ratio:.2f} x, {outlier.peers} peers"
    )


def _mixed(row: Row, group: Sequence[Row]) -> str:
    others = [other.releases for other in group if other.host != row.host]
    differ = [
        name
        for name, mine, theirs in zip(RELEASES, row.releases, zip(*others, strict=True), strict=True)
        if set(theirs) != {mine}
    ]
    return f" (with other releases of {', '.join(differ)} among them)"


def _between(row: Row, group: Sequence[Row]) -> str:
    """Where the time of a slow step is when no kernel is slow."""
    theirs = [other.free_pct for other in group if other.host != row.host and other.free_pct is not None]
    if row.free_pct is None or not theirs:
        return "; its kernels are as fast"
    return f"; its kernels are as fast, free {row.free_pct:.0f} % of the step against {statistics.median(theirs):.0f} %"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def _finding(host: str, found: Sequence[Deviation], compared: int) -> Finding:
    ordered = sorted(found, key=lambda one: (one.unit != "ms", -one.ratio, one.key, one.phase, one.rank, one.what))
    lead = ordered[0]
    what, ratio, z = lead.what, lead.ratio, lead.z
    why = _where(lead) + lead.why + (f"; and {len(ordered) - 1} more" if len(ordered) > 1 else "")
    if len(ordered) >= max(BROAD_LEAST, BROAD * compared):
        what = "most figures"
        ratio, z = statistics.median(one.ratio for one in ordered), statistics.median(one.z for one in ordered)
        why = f"{len(ordered)} of {compared} figures, {ratio:.2f} x in the middle; {_where(lead)}{lead.why}"
    return Finding(host, what, lead.unit, lead.value, lead.median, ratio, z, lead.peers, why, tuple(ordered))


def _where(one: Deviation) -> str:
    return f"{one.model} {one.phase}{f' rank {one.rank}' if one.rank else ''} "
