"""The entries of docs/troubleshooting.md that the agent names: a host can send others, and none of them is used."""

from __future__ import annotations

from types import ModuleType

from collect_agent import remedies, troubles
from collect_agent.failure import Trouble
from collect_agent.npu import failures
from collect_agent.validate import CHECKS, TREE_CHECKS

from .doctor import IMPORT


def troubles_of(module: ModuleType) -> dict[str, Trouble]:
    """Of a table of the agent, by id."""
    return {value.id: value for value in vars(module).values() if isinstance(value, Trouble)}


HOST_ENTRIES = frozenset(
    (
        IMPORT.id,
        *CHECKS,
        *TREE_CHECKS,
        *(id_ for module in (troubles, remedies, failures) for id_ in troubles_of(module)),
    )
)
