"""Faults asked for by ``SIMHOST_LIGHT_FAULTS``, a comma list of ``name`` or ``name=value``.

=====================  ==============================================================================================
export_fails           msprof cannot export: eleven "Task [X] run failed." lines, open trace_view.json, no CSV, exit 0
truncated_trace        the device part never reaches trace_view.json; all CSVs are there
short_write            the disk fills up in the middle of kernel_details.csv
no_pmu                 the counters are lost: kernel_details.csv ends at Context ID (22 columns with Step Id)
level0                 the configuration asked for becomes Level0, silently
stop_raises            stopping the profiler raises; the exception is swallowed and printed, nothing is finalised
segfault_at_stop       SIGSEGV when the window closes
thread_segfault        SIGSEGV when the profiler is stopped by another thread than the one that started it
hang_at_stop           stopping the profiler never returns
slow_parse=SECONDS     parsing takes so much longer, showing nothing but the rotating cursor
kill_at_parse          SIGKILL while parsing, as the out-of-memory killer does
no_profiler_info       profiler_info*.json is never written
no_prof_dir            the device part was never recorded: no PROF_* directory
lost_head_step[=all]   the first step of the window has half of its kernels (or none at all)
strict_paths           releases that refuse unusual characters in paths instead of warning: the handler becomes None
strict_modes           releases that refuse a PROF_* directory which others may write to
strict_owners          releases that refuse a PROF_* directory of somebody who is neither root nor oneself
device_fails=CODE      opening the device fails with this code (107001, 507033, ...)
=====================  ==============================================================================================
"""

from __future__ import annotations

import os
from typing import Optional

NAMES = frozenset(
    "export_fails truncated_trace short_write no_pmu level0 stop_raises segfault_at_stop thread_segfault hang_at_stop "
    "slow_parse kill_at_parse no_profiler_info no_prof_dir lost_head_step "
    "strict_paths strict_modes strict_owners device_fails".split()
)


def fault(name: str) -> Optional[str]:
    """The value of a fault ("" when it has none), or None when it was not asked for."""
    asked = {}
    for item in filter(None, os.environ.get("SIMHOST_LIGHT_FAULTS", "").split(",")):
        key, _, value = item.strip().partition("=")
        if key not in NAMES:
            raise ValueError("SIMHOST_LIGHT_FAULTS: no such fault: {}".format(key))
        asked[key] = value
    return asked.get(name)
