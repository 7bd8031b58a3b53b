"""From the lines of the receipts to what the run reports, and to what is still to come. No I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from .receipts import Line

Report = Dict[str, Any]
Key = Tuple[int, Any]  # a profiler: its process, its number there
OUTSIDE, INSIDE = ("NONE",), ("RECORD", "RECORD_AND_SAVE")


class Window:
    """One profiler of a process, as far as its receipts tell."""

    def __init__(self, line: Line) -> None:
        self.phase: str = str(line.get("phase"))
        self.rank: int = line["rank"] if type(line.get("rank")) is int else 0
        said = line.get("schedule")
        self.schedule: Optional[Dict[str, int]] = None if said is None else _numbers(said)
        self.opened = 0.0
        self.calls = self.outside = self.inside = self.recompiles = 0
        self.complete: Optional[bool] = None

    @property
    def needed(self) -> int:
        """`step()` calls until the window closes by itself; 0 where it is started and stopped."""
        return sum((self.schedule or {}).get(part, 0) for part in ("skip_first", "wait", "warmup", "active"))


def _numbers(said: Any) -> Dict[str, int]:
    """What of a schedule is one."""
    return {str(name): value for name, value in dict(said).items() if type(value) is int}


def kind_of(window: Window, number: int) -> str:
    """What the step `number` of a window is: of `both` the first is a prefill; without steps it is all at once."""
    if window.phase != "both":
        return window.phase
    if window.schedule is None:
        return "request"
    return "prefill" if number == 1 else "decode"


class Story:
    """`steps`: active steps by phase, None for a phase that is started and stopped. `ranks`: those to profile.

    `counted`: whether somebody else reports the steps of what is started and stopped (a conversation with a server).
    `calls`: those that are steps, where calls are.
    """

    def __init__(
        self, steps: Dict[str, Optional[int]], ranks: List[int], counted: bool = False, calls: Sequence[str] = ()
    ) -> None:
        self.steps, self.ranks, self._counted, self.calls = steps, ranks, counted, calls
        self.windows: Dict[Key, Window] = {}
        self.waiting: Set[int] = set()
        self.closed: Set[Tuple[str, int]] = set()
        self._versions: Dict[str, str] = {}  # as the last process said that imported them: forks of it say nothing
        self._devices: Dict[int, Line] = {}
        self._warmups: Dict[str, int] = {}

    def tell(self, line: Line) -> List[Report]:
        """What the run reports by this line."""
        handle = getattr(self, "_" + line["say"], None)
        try:
            return list(handle(line)) if handle else []
        except (AttributeError, KeyError, TypeError, ValueError):
            return []  # somebody else's line, of our form by chance

    @property
    def wanted(self) -> Set[Tuple[str, int]]:
        return {(phase, rank) for phase in self.steps for rank in self.ranks}

    @property
    def over(self) -> bool:
        return self.wanted <= self.closed

    def recorded(self, phase: str) -> bool:
        """Whether every rank has closed its window of the phase."""
        return all((phase, rank) in self.closed for rank in self.ranks)

    def recompiles(self, phase: str) -> int:
        """The most that any rank has compiled in a window that is started and stopped."""
        return max(window.recompiles for window in self.windows.values() if window.phase == phase)

    def _imported(self, line: Line) -> List[Report]:
        self._versions = {name: str(line[name]) for name in ("torch", "torch_npu")}
        return []

    def _profiler(self, line: Line) -> List[Report]:
        """Said again when the rank becomes known later, which may make it one that is not wanted."""
        key = line["pid"], line["id"]
        if line["wanted"]:
            self.windows[key] = Window(line)
        else:
            self.windows.pop(key, None)
        return []

    def _device(self, line: Line) -> List[Report]:
        fields = ("count", "name", "memory_free_bytes", "memory_total_bytes")
        self._devices[line["pid"]] = {"pid": line["pid"], **{name: line[name] for name in fields}}
        return []

    def _waiting(self, line: Line) -> List[Report]:
        """The device of a process is told with its rank, which is known by its profiler."""
        window = self.windows[line["pid"], line["id"]]
        self.waiting.add(window.rank)
        device = self._devices.pop(line["pid"], None)
        if device is None:
            return []
        return [self._of(window, "import", versions=self._versions, device=device)]

    def _opened(self, line: Line) -> List[Report]:
        self.windows[line["pid"], line["id"]].opened = line["time"]
        return []

    def _warmup(self, line: Line) -> List[Report]:
        phases = [line["phase"]] if line["phase"] else list(self.steps)
        kinds = {"both": line.get("kind") or "request"}  # others hold calls of their own kind alone
        return [self._warm(p, kinds.get(p, p), line["seconds"], {}) for p in phases if p in self.steps]

    def _step(self, line: Line) -> List[Report]:
        window = self.windows[line["pid"], line["id"]]
        window.calls += 1
        if window.schedule is None:
            return []
        if line["state"] in OUTSIDE and not window.inside:
            window.outside += 1
            return [self._warm(window.phase, kind_of(window, 1), line["seconds"], self._whose(window))]
        if line["state"] not in INSIDE:
            return []
        window.inside += 1
        return [self._profiled(window, window.inside, line["seconds"], line["recompiles"])]

    def _closed(self, line: Line) -> List[Report]:
        window = self.windows[line["pid"], line["id"]]
        window.complete = bool(line["complete"])
        window.recompiles = int(line.get("recompiles") or 0)
        if not window.complete:
            return []
        self.closed.add((window.phase, window.rank))
        if window.schedule is not None or self._counted:
            return []
        return [self._profiled(window, 1, line["time"] - window.opened, window.recompiles)]

    def _warm(self, phase: str, kind: str, seconds: float, whose: Report) -> Report:
        self._warmups[phase] = number = self._warmups.get(phase, 0) + 1
        fields = {"window": phase, "kind": kind, "step": number, "of": number, "seconds": float(seconds)}
        return {"stage": "warmup", **fields, **whose}

    def _profiled(self, window: Window, number: int, seconds: float, recompiles: int) -> Report:
        fields = {"kind": kind_of(window, number), "step": number, "of": self.steps.get(window.phase) or number}
        return self._of(window, "profile", **fields, seconds=round(float(seconds), 6), recompiles=int(recompiles))

    def _of(self, window: Window, stage: str, **fields: Any) -> Report:
        named = {} if stage == "import" else {"window": window.phase}
        return {"stage": stage, **named, **fields, **self._whose(window)}

    def _whose(self, window: Window) -> Report:
        """The first of the profiled ranks speaks for the run, and has no need to say which it is."""
        return {} if window.rank == self.ranks[0] else {"rank": window.rank}
