"""Devices of a host as a container on it has them: which it has at all, and by which numbers it counts them.

A container counts its logic ids anew from 0, in the order of the host's (CANN 8.0 to 9.1, page of
ASCEND_RT_VISIBLE_DEVICES). Who may use a device is judged on the host, which sees the processes of all containers.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Iterable, Mapping, Optional, Sequence, Tuple

from ..failure import Failure
from .device import INFO, Device
from .interpret import interpret
from .judge import Verdict, Wish, judge, visible_ids
from .reasons import NOT_ALLOWED_INSIDE, NOT_INSIDE


def logic_ids(host: Sequence[Device], seen_inside: Mapping[str, Any], nodes: Iterable[int]) -> Dict[int, int]:
    """{logic id on the host: logic id in the container} of every device that the container has.

    `seen_inside` is what `look` saw there: where npu-smi works there, the bus address joins both views. Otherwise
    `nodes` decide, the physical ids whose /dev/davinci it has.
    """
    return _by_bus(host, seen_inside) or _by_node(host, nodes)


def _by_bus(host: Sequence[Device], seen_inside: Mapping[str, Any]) -> Dict[int, int]:
    """None at all where one of the container's devices cannot be joined: the others' numbers would be a guess."""
    try:
        inside = [device for device in interpret(seen_inside) if device.source == INFO]
    except Failure:
        return {}
    places = {(device.bus_id, device.chip): device.logic for device in host}
    joined: Dict[int, int] = {}
    for device in inside:
        outer = places.get((device.bus_id, device.chip))
        if device.bus_id is None or device.logic is None or outer is None:
            return {}
        joined[outer] = device.logic
    return joined


def _by_node(host: Sequence[Device], nodes: Iterable[int]) -> Dict[int, int]:
    """Outside of containers the physical id is the logic id."""
    known = {device.logic for device in host}
    return {phy: logic for logic, phy in enumerate(sorted(set(nodes))) if phy in known}


def judge_for(
    devices: Sequence[Device], wish: Wish, visible: Optional[str], box: Optional[Mapping[str, Any]]
) -> Tuple[Verdict, ...]:
    """The verdict on every device of a host for a program on it, or in the container `box`.

    `visible` is the program's preset ASCEND_RT_VISIBLE_DEVICES, if any. Of `box`: `name`, and `logic_ids` as pairs.
    """
    if box is None:
        return judge(devices, wish, visible_ids(visible))
    ids, allowed = dict(box["logic_ids"]), visible_ids(visible)
    verdicts = []
    for verdict in judge(devices, wish):
        inner = ids.get(verdict.device.logic)
        if inner is None:
            reason = NOT_INSIDE(container=box["name"])
        elif allowed is not None and inner not in allowed:
            reason = NOT_ALLOWED_INSIDE(id=inner, setting=visible)
        else:
            verdicts.append(verdict)
            continue
        verdicts.append(dataclasses.replace(verdict, free=False, reason=reason, remark=""))
    return tuple(verdicts)


def reachable(
    verdicts: Sequence[Verdict], visible: Optional[str], box: Optional[Mapping[str, Any]]
) -> Tuple[Verdict, ...]:
    """The verdicts as they were if everybody released what they have: free is what the program may ever use."""
    allowed = visible_ids(visible)
    ids = None if box is None else dict(box["logic_ids"])

    def may(logic: Optional[int]) -> bool:
        inner = logic if ids is None else ids.get(logic)
        return inner is not None and (allowed is None or inner in allowed)

    return tuple(dataclasses.replace(verdict, free=may(verdict.device.logic)) for verdict in verdicts)
