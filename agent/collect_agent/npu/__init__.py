"""Which NPUs a host has, and which of them may be used: text of npu-smi in, devices and verdicts out.

    look() -> interpret() -> judge() -> groups()          (in a container: judge_for())

Everything but `look` is pure, and the controller uses it too: for saved texts, and to say beforehand what a run would
get.
"""

from __future__ import annotations

from .choice import Group, NoFreeDevice, groups, reasons, refusal
from .device import Device, Process
from .failures import NpuSmiError
from .inside import judge_for, logic_ids, reachable
from .interpret import interpret
from .judge import UsageError, Verdict, Wish, judge, used_limit, visible_ids
from .look import look

__all__ = [
    "Device",
    "Group",
    "NoFreeDevice",
    "NpuSmiError",
    "Process",
    "UsageError",
    "Verdict",
    "Wish",
    "groups",
    "interpret",
    "judge",
    "judge_for",
    "logic_ids",
    "look",
    "reachable",
    "reasons",
    "refusal",
    "used_limit",
    "visible_ids",
]
