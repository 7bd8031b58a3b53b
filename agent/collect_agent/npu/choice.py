"""Which of the free devices to take: those that were named, or the idlest that lie close together.

Close: dies of one card first. Then chips of one HCCS group: cards 0 to 3 and 4 to 7 of a 910A server, eight cards on
Atlas A2. On Atlas A3 neighbouring cards.
"""

from __future__ import annotations

import itertools
import re
from typing import Iterable, Iterator, List, Sequence, Set, Tuple

from ..failure import Failure
from ..troubles import NO_SUCH_DEVICE
from .device import Device
from .judge import UsageError, Verdict, Wish
from .reasons import OUTSIDE

Group = Tuple[Device, ...]
MOST = 64  # groups that are worth a try: enough to find one that nobody else has leased
_910A = re.compile(r"(?:Ascend)?910(?:A|B|ProA|ProB|PremiumA)?")  # "910B" alone is of the A generation


class NoFreeDevice(Failure):
    """Not enough of the devices asked for may be used at the moment."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__("NoFreeDevice", message, remedy)


def groups(verdicts: Sequence[Verdict], wish: Wish) -> List[Group]:
    """The groups of free devices that fulfil the wish, best first: close together, least memory used, highest ids.

    None when too few devices may be used at the moment (`refusal` says why), else at most MOST, each ascending by
    logic id. A group that has no member in common with better ones is never left out for one that has.
    Raises UsageError when this host can never fulfil the wish.
    """
    named = _asked(verdicts, wish)
    if len(named) > 1:
        if wish.count not in (1, len(named)):
            raise UsageError(
                "{} devices are asked for, and {} are named".format(wish.count, len(named)),
                "name them, or say how many",
            )
        if not any(True for _ in _one_each(named)):
            raise UsageError("{} name a device twice".format(", ".join(wish.devices)), _present(verdicts))
        return _best(_one_each([[verdict for verdict in these if _usable(verdict)] for these in named]))
    if not 1 <= wish.count <= len(named[0]):
        raise UsageError(
            "{} devices are asked for, and there are {}".format(wish.count, len(named[0])), _present(verdicts)
        )
    usable = [verdict.device for verdict in named[0] if _usable(verdict)]
    return _best(group for pool in _pools(usable, wish.count) for group in _some_of(pool, wish.count))


def reasons(verdicts: Sequence[Verdict], wish: Wish) -> List[str]:
    """Of every device asked for that may not be used, its name and why: "NPU 3 chip 0 (logic 3) unhealthy: Alarm"."""
    asked = dict.fromkeys(verdict for these in _asked(verdicts, wish) for verdict in these)
    refused = [verdict for verdict in asked if not _usable(verdict)]
    told = [v for v in refused if not v.reason.startswith(OUTSIDE)] or refused[:1]
    more = len(refused) - len(told)
    rest = ["{} more {} {}".format(more, "are" if more > 1 else "is", _outside(refused))] if more else []
    return ["{} {}".format(v.device.label, v.reason) for v in told] + rest


def _outside(refused: Iterable[Verdict]) -> str:
    """What is said of those that a container does not have, alike for all."""
    return next(verdict.reason for verdict in refused if verdict.reason.startswith(OUTSIDE))


def refusal(verdicts: Sequence[Verdict], wish: Wish) -> NoFreeDevice:
    """What to say when there is no group: every reason, and what is free instead."""
    why = "; ".join(reasons(verdicts, wish)) or "npu-smi lists none"
    free = [verdict.device.label for verdict in verdicts if _usable(verdict)]
    if wish.devices:
        several = len(wish.devices) > 1 or wish.count > 1
        what = "the NPUs asked for are not all free" if several else "the NPU asked for is not free"
        return NoFreeDevice("{}: {}".format(what, why), "free at the moment: {}".format(", ".join(free) or "none"))
    what = "only {} of the {} NPUs asked for are free".format(len(free), wish.count) if free else "no NPU is free"
    remedy = "wait until one is, or ask its users to release it"
    if "no visible process" in why:
        remedy += "; where nobody uses that memory, --max-used SIZE accepts it"
    return NoFreeDevice("{}: {}".format(what, why), remedy)


def _asked(verdicts: Sequence[Verdict], wish: Wish) -> List[List[Verdict]]:
    """The devices that each name stands for; all in one when none is named."""
    return [_named(verdicts, name) for name in wish.devices] or [list(verdicts)]


def _one_each(named: Sequence[Sequence[Verdict]]) -> Iterator[Group]:
    for chosen in itertools.product(*named):
        if len({id(verdict) for verdict in chosen}) == len(chosen):
            yield tuple(verdict.device for verdict in chosen)


def _named(verdicts: Sequence[Verdict], name: str) -> List[Verdict]:
    found = re.fullmatch(r"logic:([0-9]{1,9})|([0-9]{1,9})(?:\.([0-9]{1,9}))?", name)
    if not found:
        raise UsageError(
            "{!r} does not name a device".format(name),
            'name it by its NPU ("3"), NPU and chip ("3.1") or logic id ("logic:7")',
        )
    logic, npu, chip = (None if text is None else int(text) for text in found.groups())
    these = [
        verdict
        for verdict in verdicts
        if (verdict.device.logic == logic if npu is None else verdict.device.npu == npu)
        and chip in (None, verdict.device.chip)
    ]
    if not these:
        raise UsageError(NO_SUCH_DEVICE.message.format(name=name), _present(verdicts), NO_SUCH_DEVICE.id)
    return these


def _usable(verdict: Verdict) -> bool:
    return verdict.free and verdict.device.logic is not None


def _present(verdicts: Sequence[Verdict]) -> str:
    labels = ", ".join(verdict.device.label for verdict in verdicts) or "none"
    return NO_SUCH_DEVICE.remedy.format(present=labels)


def _pools(devices: Sequence[Device], count: int) -> Iterator[List[Device]]:
    """Sets of devices that lie close together and hold at least `count`, and all of them; each idlest first."""
    idlest_first = sorted(devices, key=lambda device: _cost((device,)))
    cards = sorted({device.npu or 0 for device in devices})
    for first in range(len(cards)):
        for last in range(first, len(cards)):
            pool = [d for d in idlest_first if cards[first] <= (d.npu or 0) <= cards[last]]
            if len(pool) >= count:
                yield pool
                break
    for hccs in sorted({_hccs_group(device) for device in devices}):
        yield [device for device in idlest_first if _hccs_group(device) == hccs]
    yield idlest_first


def _some_of(pool: Sequence[Device], count: int) -> Iterator[Group]:
    """Groups of a pool, the idlest devices first, and some that have nothing in common."""
    for start in range(0, len(pool) - count + 1, count):
        yield tuple(pool[start : start + count])
    yield from itertools.islice(itertools.combinations(pool, count), MOST)


def _best(possible: Iterable[Group]) -> List[Group]:
    """Rank them and keep the best, with those among them that have nothing in common."""
    ranked = sorted({tuple(sorted(group, key=lambda d: d.logic or 0)) for group in possible}, key=_cost)
    apart: List[Group] = []
    taken: Set[Device] = set()
    for group in ranked:
        if taken.isdisjoint(group):
            apart.append(group)
            taken.update(group)
    kept = apart[:MOST]
    kept += [group for group in ranked if group not in set(kept)][: MOST - len(kept)]
    return sorted(kept, key=_cost)


def _cost(group: Group) -> Tuple[object, ...]:
    """Less is better. The highest ids go first among equals, because people crowd NPU 0."""
    ids = sorted((-(d.npu or 0), -(d.chip or 0), -(d.logic or 0)) for d in group)
    return (_distance(group), sum(d.memory_used_mb or 0 for d in group), ids)


def _distance(group: Group) -> Tuple[int, int, int]:
    """How far apart the devices of a group are: HCCS groups, cards, and on A3 the cards between the outermost."""
    cards = {device.npu or 0 for device in group}
    spread = max(cards) - min(cards) if group[0].phy is not None else 0
    return len({_hccs_group(device) for device in group}), len(cards), spread


def _hccs_group(device: Device) -> int:
    """The number of the HCCS group on the host; 0 where all devices are one group, or there is no HCCS.

    Source: the affinity rules of Ascend's own scheduler (MindCluster): 910A by fours, A2 by eights, A3 without groups.
    """
    if device.npu is None or device.phy is not None or not re.match(r"(?:Ascend)?910", device.name):
        return 0
    return device.npu // (4 if _910A.fullmatch(device.name) else 8)
