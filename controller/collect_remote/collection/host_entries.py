"""The entries of docs/troubleshooting.md that the agent names: a host can send others, and none of them is used."""

from __future__ import annotations

from collect_agent import remedies, troubles
from collect_agent.failure import Trouble
from collect_agent.npu import failures
from collect_agent.validate import CHECKS, TREE_CHECKS

from ..checks.doctor import IMPORT

_TABLES = [value for module in (troubles, remedies, failures) for value in vars(module).values()]
HOST_ENTRIES = frozenset({IMPORT.id, *CHECKS, *TREE_CHECKS, *(t.id for t in _TABLES if isinstance(t, Trouble))})
