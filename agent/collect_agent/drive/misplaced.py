"""A rank of a job on several hosts that was started on another than its own. Pure."""

from __future__ import annotations

from typing import Iterable, List, Optional

NAMES = (b"RANK", b"RANK_ID")  # what a launcher calls a rank of the whole job


def misplaced(environments: Iterable[List[bytes]], own: range, world: int) -> Optional[int]:
    """The first rank that is none of this host's `own`; None when all are in their place, as far as it is told.

    environments: of processes, an entry a variable. world: how many ranks the job has; others are of another job.
    """
    for entries in environments:
        variables = dict(entry.partition(b"=")[::2] for entry in entries)
        if variables.get(b"WORLD_SIZE") != str(world).encode():
            continue
        told = next(filter(bytes.isdigit, (variables.get(name, b"") for name in NAMES)), None)
        if told is not None and int(told) not in own:
            return int(told)
    return None
