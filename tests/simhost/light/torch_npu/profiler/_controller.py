"""The state table of the profiler: what happens on the way from the action of one step to that of the next."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, List, Tuple

from ._messages import warn
from .scheduler import ProfilerAction

NONE, WARMUP, RECORD, SAVE = ProfilerAction
STOPPED = None

_STOP_TOO_EARLY = "Incorrect schedule: Stop profiler while current state is {}"


def transitions(window: Any, ready: Callable[[], None]) -> Dict[Tuple[Any, Any], List[Callable[[], Any]]]:
    """(action before, action after) -> what to do; a pair that is not there needs nothing.

    ``window`` has init, warmup, start, stop, finalize and delete; ``ready`` calls the trace handler.
    """
    close = [window.stop, window.finalize]
    save = close + [ready]
    begin = [window.init, window.start]
    wrong = {
        pair: [partial(warn, "Incorrect schedule: {} followed by {}".format(pair[0].name, pair[1].name))]
        for pair in ((WARMUP, NONE), (RECORD, NONE), (RECORD, WARMUP))
    }
    return {
        (NONE, WARMUP): [window.init, window.warmup],
        (NONE, RECORD): begin,
        (NONE, SAVE): begin,
        (WARMUP, NONE): wrong[WARMUP, NONE] + [window.start] + close,
        (WARMUP, RECORD): [window.start],
        (WARMUP, SAVE): [window.start],
        (RECORD, NONE): wrong[RECORD, NONE] + close,
        (RECORD, WARMUP): wrong[RECORD, WARMUP] + close,
        (SAVE, NONE): save,
        (SAVE, WARMUP): save + [window.init, window.warmup],
        (SAVE, RECORD): save + begin,
        (SAVE, SAVE): save + begin,
        (WARMUP, STOPPED): [
            partial(warn, _STOP_TOO_EARLY.format("WARMUP which will result in empty parsed data.")),
            window.finalize,
            window.delete,
        ],
        (RECORD, STOPPED): [partial(warn, _STOP_TOO_EARLY.format("RECORD which may result in incomplete parsed data."))]
        + save,
        (SAVE, STOPPED): [
            partial(
                warn,
                "Stop profiler while current state is RECORD_AND_SAVE, perhaps the scheduling cycle has not yet "
                "completed.",
            )
        ]
        + save,
    }
