"""The devices of a host that was surveyed: the agent's own judgement, with the controller's errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from collect_agent import npu
from collect_agent.npu import Device, Group, Verdict, Wish
from collect_agent.npu.judge import NO_WISH

from .errors import translated
from .survey import Facts


def verdicts(facts: Facts, wish: Wish = NO_WISH) -> tuple[Verdict, ...]:
    """The verdict on every NPU of the host, in npu-smi's order. EnvironmentUnfit when npu-smi does not tell them."""
    with translated():
        found = npu.interpret(facts.npu)
        return npu.judge(found, wish, npu.visible_ids(facts.visible_devices))


def groups(judged: Sequence[Verdict], wish: Wish) -> list[Group]:
    """The groups of free devices that fulfil the wish, best first (`collect_agent.npu.groups`).

    UsageError when the host can never fulfil it, NoFreeDevice with every reason when it cannot now.
    """
    with translated():
        found = npu.groups(judged, wish)
        if not found:
            raise npu.refusal(judged, wish)
        return found


def out_of_reach(judged: Sequence[Verdict], wish: Wish, visible_devices: str | None) -> bool:
    """Whether a preset ASCEND_RT_VISIBLE_DEVICES leaves too few devices for the wish, whoever releases theirs."""
    visible = npu.visible_ids(visible_devices)
    if visible is None or any(verdict.device.logic is None for verdict in judged):
        return False
    released = [dataclasses.replace(verdict, free=verdict.device.logic in visible) for verdict in judged]
    return not npu.groups(released, wish)


__all__ = ["Device", "Group", "Verdict", "Wish", "groups", "out_of_reach", "verdicts"]
