"""What a simulated Ascend device makes of an operator: one kernel, with a name, a core, a time and counters.

Shared by both runtimes of the simulated host. Pure functions over plain data, deterministic: the same
operators give the same bytes. Standard library only, Python 3.8 and later.

**Nothing here is a measurement.** A kernel's time is either cut out of the time that the operator took on
the simulated host's CPU or estimated from its shapes, and every counter is invented from those. Faithful is
the structure: names, columns, units, which cells are filled, how the figures depend on each other.

Times are integers in nanoseconds since the epoch; `microseconds` prints them exactly, so that sums and unions
taken from the written files in decimal arithmetic come out exact.
"""

from __future__ import annotations

from .counters import NO_METRICS, PIPE_UTILIZATION
from .kinds import Kind, kind_of
from .model import MODEL_ID, Kernel, Operator, Tensor
from .stream import estimate_ns, flops_of, timeline
from .tables import (
    API_STATISTIC_COLUMNS,
    BASE_COLUMNS,
    OP_STATISTIC_COLUMNS,
    api_statistic_rows,
    op_statistic_rows,
    op_summary_columns,
    op_summary_row,
)
from .trace import busy_and_free, connection_ids, timeline_events
from .units import microseconds

__all__ = [
    "API_STATISTIC_COLUMNS",
    "BASE_COLUMNS",
    "Kernel",
    "Kind",
    "MODEL_ID",
    "NO_METRICS",
    "OP_STATISTIC_COLUMNS",
    "Operator",
    "PIPE_UTILIZATION",
    "Tensor",
    "api_statistic_rows",
    "busy_and_free",
    "connection_ids",
    "estimate_ns",
    "flops_of",
    "kind_of",
    "microseconds",
    "op_statistic_rows",
    "op_summary_columns",
    "op_summary_row",
    "timeline",
    "timeline_events",
]
