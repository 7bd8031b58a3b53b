"""What the scheduler hands to the workers for one step."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class SchedulerOutput:
    """`num_scheduled_tokens` by request; `tokens` of all of them in one row."""

    num_scheduled_tokens: dict[str, int] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)

    @property
    def total_num_scheduled_tokens(self) -> int:
        return len(self.tokens)

    def add(self, request: str, tokens: list[int]) -> None:
        self.num_scheduled_tokens[request] = len(tokens)
        self.tokens += tokens
