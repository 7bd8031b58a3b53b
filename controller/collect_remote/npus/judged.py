"""The devices of a host that was surveyed: the agent's own judgement, with the controller's errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from collect_agent.npu import choice
from collect_agent.npu.choice import Group
from collect_agent.npu.device import Device
from collect_agent.npu.inside import judge_for, reachable
from collect_agent.npu.interpret import interpret
from collect_agent.npu.judge import NO_WISH, Verdict, Wish

from ..errors import EnvironmentUnfit, one_line, translated
from ..shape import Maybe, misfit, printable

FIGURES: dict[str, Any] = {
    **dict.fromkeys(("npu", "chip", "logic", "phy", "utilisation_pct"), Maybe(int)),
    **dict.fromkeys(("memory_used_mb", "memory_total_mb"), Maybe(float)),
}
WORDS = ("name", "health", "doubt")


class Seen(Protocol):
    """What was seen of a host's NPUs: of `survey.Facts`, which describes it, or of `glance.Glimpse`."""

    @property
    def npu(self) -> Mapping[str, Any]: ...

    @property
    def visible_devices(self) -> str | None: ...

    @property
    def box_document(self) -> Mapping[str, Any] | None: ...


def verdicts(facts: Seen, wish: Wish = NO_WISH) -> tuple[Verdict, ...]:
    """The verdict on every NPU of the host, in npu-smi's order. EnvironmentUnfit when npu-smi does not tell them."""
    with translated():
        return judge_for(_interpreted(facts.npu), wish, facts.visible_devices, facts.box_document)


def _interpreted(seen: Mapping[str, Any]) -> list[Device]:
    """The devices in what the host saw, their words fit for a terminal."""
    try:
        devices = interpret(seen)
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise _strange(repr(error)) from error
    for device in devices:
        if misfit(vars(device), FIGURES) is not None:
            raise _strange(repr(device))
    return [_readable(device) for device in devices]


def _readable(device: Device) -> Device:
    words = {name: getattr(device, name) for name in WORDS}
    readable = printable(words)
    return device if readable == words else dataclasses.replace(device, **readable)


def _strange(what: str) -> EnvironmentUnfit:
    return EnvironmentUnfit(
        f"the host tells of its NPUs in words that nobody understands: {one_line(what)}",
        "see what `npu-smi info` prints there, and whether it is the driver's own",
    )


def groups(judged: Sequence[Verdict], wish: Wish) -> list[Group]:
    """The groups of free devices that fulfil the wish, best first (`collect_agent.npu.choice.groups`).

    UsageError when the host can never fulfil it, NoFreeDevice with every reason when it cannot now.
    """
    with translated():
        found = choice.groups(judged, wish)
        if not found:
            raise choice.refusal(judged, wish)
        return found


def out_of_reach(
    judged: Sequence[Verdict], wish: Wish, visible_devices: str | None, box: Mapping[str, Any] | None = None
) -> bool:
    """Whether a preset ASCEND_RT_VISIBLE_DEVICES or the container leaves too few devices, whoever releases theirs."""
    unknown = any(verdict.device.logic is None for verdict in judged)
    if unknown or (visible_devices is None and box is None):
        return False
    return not choice.groups(reachable(judged, visible_devices, box), wish)


__all__ = ["Device", "Group", "Verdict", "Wish", "groups", "out_of_reach", "verdicts"]
