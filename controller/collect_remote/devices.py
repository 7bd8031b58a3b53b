"""The devices of a host that was surveyed: the agent's own judgement, with the controller's errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collect_agent import npu
from collect_agent.npu import Device, Group, Verdict, Wish
from collect_agent.npu.judge import NO_WISH

from .errors import translated
from .survey import Facts


def verdicts(facts: Facts, wish: Wish = NO_WISH) -> tuple[Verdict, ...]:
    """The verdict on every NPU of the host, in npu-smi's order. EnvironmentUnfit when npu-smi does not tell them."""
    with translated():
        return npu.judge_for(npu.interpret(facts.npu), wish, facts.visible_devices, facts.box_document)


def groups(judged: Sequence[Verdict], wish: Wish) -> list[Group]:
    """The groups of free devices that fulfil the wish, best first (`collect_agent.npu.groups`).

    UsageError when the host can never fulfil it, NoFreeDevice with every reason when it cannot now.
    """
    with translated():
        found = npu.groups(judged, wish)
        if not found:
            raise npu.refusal(judged, wish)
        return found


def out_of_reach(
    judged: Sequence[Verdict], wish: Wish, visible_devices: str | None, box: Mapping[str, Any] | None = None
) -> bool:
    """Whether a preset ASCEND_RT_VISIBLE_DEVICES or the container leaves too few devices, whoever releases theirs."""
    unknown = any(verdict.device.logic is None for verdict in judged)
    if unknown or (visible_devices is None and box is None):
        return False
    return not npu.groups(npu.reachable(judged, visible_devices, box), wish)


__all__ = ["Device", "Group", "Verdict", "Wish", "groups", "out_of_reach", "verdicts"]
