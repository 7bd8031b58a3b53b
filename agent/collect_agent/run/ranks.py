"""The ranks of a run, heard as one program.

The first speaks for all about progress. What the others say is kept: at the end it proves what they did. A gate opens
when everybody has come to it.
"""

from __future__ import annotations

import re
import time
from typing import Dict, Iterable, List, Optional, Sequence, Set

from .. import events
from ..ending import how_ended
from ..troubles import RANK_ENDED
from . import process

# torchrun's summary of a failure, of torch 2.1 to 2.13 (torch/distributed/elastic/multiprocessing/errors).
_RANK = re.compile(r"\s*rank\s*: (\d+) \(local_rank")
_STATUS = re.compile(r"\s*exitcode\s*: (-?\d+) \(pid")


class Ranks:
    """Reports of the ranks that are profiled; those of others are passed over. The first of them is the lead."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.told: Dict[int, List[events.Event]] = {rank: [] for rank in ranks}
        self._lead = min(ranks)
        self._at_the_gate: Set[int] = set()

    @property
    def others(self) -> Dict[int, List[events.Event]]:
        """What the ranks besides the lead have said."""
        return {rank: told for rank, told in self.told.items() if rank != self._lead}

    def hear(self, event: events.Event) -> Optional[events.Event]:
        """What the run says by this report of one rank (`rank`; the lead when there is none); None: nothing yet."""
        rank = event.get("rank", self._lead)
        if rank not in self.told:
            return None
        if event["stage"] == "error":
            where = "rank {}: ".format(rank) if len(self.told) > 1 and "rank" in event else ""
            return dict(event, message=where + event["message"])
        self.told[rank].append(dict(event, time=time.time()))
        if event["stage"] in events.GATES:
            self._at_the_gate.add(rank)
            if len(self._at_the_gate) < len(self.told):
                return None
            self._at_the_gate.clear()
            return {name: value for name, value in event.items() if name != "rank"}
        return event if rank == self._lead or "device" in event else None

    def miss(self) -> None:
        """Failure when others stand at a gate to which a rank that has ended cannot come; torchrun waits for ever."""
        if not self._at_the_gate:
            return
        for rank, told in self.told.items():
            pid = next((event["device"]["pid"] for event in told if "device" in event), None)
            if rank not in self._at_the_gate and pid is not None and process.start_time(pid) is None:
                raise RANK_ENDED(rank=rank, stage=told[-1]["stage"])


def death(log: Iterable[str]) -> Optional[str]:
    """Which rank died first and how, from torchrun's summary in the log's lines. Pure."""
    rank, found = "", None
    for line in log:
        of_rank, status = _RANK.match(line), _STATUS.match(line)
        rank = of_rank.group(1) if of_rank else rank
        if status and rank:
            # The last one is torchrun's "root cause", the first that failed.
            found = "rank {} {}".format(rank, how_ended(int(status.group(1))))
    return found
