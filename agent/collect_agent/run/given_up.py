"""The end of a run that cannot tell its own any more: what is left of it is ended, then its reader is told why."""

from __future__ import annotations

import contextlib
import sys

from .. import events
from ..boxes import ownership
from ..failure import Failure
from ..output import elsewhere
from ..troubles import FETCHED, SUPERVISOR_DIED
from . import process, putback, remains, runlog
from .rundir import RunDir

GRACE_S = 5.0  # for a supervisor whose run was removed, to end it


def fetched(run: RunDir) -> int:
    return _give_up(run, FETCHED(run=run.id), GRACE_S)


def removed(run: RunDir) -> int:
    return _give_up(run, remains.removed(run), GRACE_S)


def died(run: RunDir) -> int:
    return _give_up(run, SUPERVISOR_DIED(log=run.log), 0.0)


def _give_up(run: RunDir, failure: Failure, grace_s: float) -> int:
    process.end(run.id, grace_s=grace_s)
    with contextlib.suppress(OSError):
        runlog.cut(run)
    elsewhere.remove_copies(run)
    putback.put_back(run)
    remains.trim(run)
    ownership.give_back(run)
    sys.stdout.write(events.on_wire(events.failed(failure)))
    sys.stdout.flush()
    return 1
