"""What the shim is asked to do: the file that COLLECT_REMOTE_SHIM names.

    {"output": DIR,              profiles go to DIR/<phase>
     "receipts": DIR,            one file a process: <pid>.jsonl
     "gate": FILE or null,       wait for it before the first recording of a process, at most "gate_s" seconds
     "profiler": {"level": 0|1|2, "aic_metrics": NAME, "export": ["text"|"db", ...], "with_stack": bool,
                  "record_shapes": bool, "profile_memory": bool},
     "windows": {PHASE: {"skip_first": n, "wait": n, "warmup": n, "active": n} or null},
     "phase_by": [[REGEX, PHASE], ...],   searched in the directory that the program gave its handler; first hit
     "phase": PHASE or null,              of all others; null: not wanted
     "ranks": [0, ...] or null,
     "step_on": [{"call": "pkg.module:Class.method", "phase": PHASE or null}, ...],
     "watch": [{"call": "pkg.module:Class.method", "phase": PHASE or null}, ...]}

A window that is null is what the program makes it. A phase without a window is not wanted.
"""

from __future__ import annotations

from . import plain_json

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it takes longer than all that happens at start-up
    from typing import Any, Dict, List, Optional

MODULE = "torch_npu.profiler"


class Call:
    """A function or method whose calls are counted; `phase` None: decided by tokens, or any."""

    def __init__(self, said: Dict[str, Any]) -> None:
        self.call: str = said["call"]
        self.phase: Optional[str] = said.get("phase")
        self.module, _, self.qualname = self.call.partition(":")


class Request:
    """The document, with what it may leave out. KeyError, TypeError or ValueError when it is none."""

    def __init__(self, said: Dict[str, Any]) -> None:
        self.output, self.receipts = str(said["output"]), str(said["receipts"])
        self.gate: Optional[str] = said.get("gate")
        gate_s = said.get("gate_s")
        self.gate_s = 30.0 if gate_s is None else float(gate_s)
        self.profiler: Dict[str, Any] = dict(said.get("profiler") or {})
        self.windows: Dict[str, Optional[Dict[str, int]]] = dict(said.get("windows") or {})
        self.phase_by: List[List[str]] = list(said.get("phase_by") or [])
        self.phase: Optional[str] = said.get("phase")
        self.ranks: Optional[List[int]] = said.get("ranks")
        self.step_on = [Call(one) for one in said.get("step_on") or []]
        self.watch = [Call(one) for one in said.get("watch") or []]

    def phase_of(self, directory: str) -> Optional[str]:
        """The phase of a profiler whose handler was given `directory`; None: it is not wanted."""
        import re

        hits = (phase for pattern, phase in self.phase_by if re.search(pattern, directory))
        phase = next(hits, self.phase)
        return phase if phase in self.windows else None

    def of_rank(self, rank: int) -> bool:
        return self.ranks is None or rank in self.ranks


def read(path: str) -> Request:
    """The request in a file; OSError or what `Request` raises when there is none."""
    with open(path, encoding="utf-8") as file:
        return Request(plain_json.loads(file.read()))
