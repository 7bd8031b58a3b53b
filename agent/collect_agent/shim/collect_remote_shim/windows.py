"""When a window of a program without a profiler begins, and whether the calls in it are the right ones. All pure.

The calls of a window are of one phase and follow each other, or are a prefill and the decodes behind it (`both`). The
profiler's own warm-up steps come first; between these, and before the first call that is recorded, others may come.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

OPEN, NEXT, PASS, INTERRUPTED = "open", "next", "pass", "interrupted"
TOKENS = ("input_ids", "tokens", "inputs_embeds", "hidden_states", "hidden_state", "sample")


class Window:
    """What one phase asks for: how many calls before it, and the kinds of the calls in it."""

    def __init__(self, phase: str, numbers: Dict[str, int]) -> None:
        self.phase = phase
        active = int(numbers.get("active", 1))
        self.warmup = int(numbers.get("warmup", 0))
        self.before = int(numbers.get("skip_first", 0)) + int(numbers.get("wait", 0))
        recorded = ["prefill"] + ["decode"] * (active - 1) if phase == "both" else [phase] * active
        self.kinds: List[str] = [recorded[0]] * self.warmup + recorded
        # A prefill follows no other: its warm-up step is closed, and recording begins, when it comes, not when the one
        # before has ended. The steps of a row of calls all have what the program does between two of them.
        self.apart = recorded[0] == "prefill" or active == 1
        self.schedule = {"warmup": self.warmup, "active": active}

    def counts(self, kind: str) -> bool:
        """Whether a call of this kind is one of the calls before the window."""
        return kind in self.kinds

    def decide(self, kind: str, seen: int, position: Optional[int]) -> str:
        """What a call of `kind` means, after `seen` calls before the window, or at `position` of one that is open."""
        if position is None:
            return OPEN if seen >= self.before and kind == self.kinds[0] else PASS
        if kind == self.kinds[position]:
            return NEXT
        return INTERRUPTED if self.recording(position) else PASS

    def recording(self, position: int) -> bool:
        """Whether anything is recorded between two calls, the next of which is that of `position`."""
        return position > self.warmup or (position == self.warmup and not self.apart)


def kind_of(args: Any, kwargs: Dict[str, Any]) -> str:
    """prefill when the input of a call has more than one token of a sequence, else decode.

    The input is what a scheduler says of it (of vLLM: tokens by request), what models call it, or the first argument
    with a shape; shapes are (tokens), (batch, tokens) or (batch, tokens, hidden).
    """
    for scheduled in (getattr(one, "num_scheduled_tokens", None) for one in (*args, *kwargs.values())):
        if isinstance(scheduled, dict):
            return "prefill" if max(scheduled.values(), default=0) > 1 else "decode"
    named = [kwargs[name] for name in TOKENS if hasattr(kwargs.get(name), "shape")]
    others = [one for one in (*args, *kwargs.values()) if hasattr(one, "shape")]
    nested = [one for group in (*args, *kwargs.values()) if isinstance(group, dict) for one in group.values()]
    found = named + others + [one for one in nested if hasattr(one, "shape")]
    shape = tuple(found[0].shape) if found else ()
    tokens = shape[1] if len(shape) > 1 else shape[0] if shape else 1
    return "prefill" if tokens > 1 else "decode"
