"""Whether there is room on the disk of a run: a full one shows in many ways, of which few name it.

Receipts that are not written tell of fewer steps than were made, a profiler leaves half of its files, a parser
complains of the data. So it is looked at before any of that is believed.
"""

from __future__ import annotations

import contextlib
import os
from typing import Optional

from .. import troubles
from ..failure import Failure
from . import remains
from .rundir import RunDir

PROBE_BYTES = 1 << 16
FOLLOWS = ("RunFailed", "ProfileInvalid", "EnvironmentUnfit")  # kinds of failures that a full disk can be behind


def lacking(run: RunDir) -> Optional[Failure]:
    """What is wrong with the disk of `run`, by writing to it; None when that goes well, or the run is not there."""
    path = os.path.join(run.path, "room.{}".format(os.getpid()))
    try:
        with open(path, "wb") as probe:
            probe.write(bytes(PROBE_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        return troubles.NOT_WRITTEN(why=error.strerror, path=run.path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return None


def lacking_behind(failure: Failure, run: RunDir) -> Optional[Failure]:
    """The same where it explains `failure`; it says where the data are."""
    found = lacking(run) if failure.kind in FOLLOWS else None
    if found:
        found.remedy += remains.kept(run)
    return found
