"""What a check has to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..errors import CollectError

Verdict = Literal["ok", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check with a stable id. `error`: what a collection ends with, for a failure. `seconds` that it took."""

    id: str
    verdict: Verdict
    message: str
    remedy: str = ""
    error: CollectError | None = None
    seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        """For `--json`; `seconds` only where there are some."""
        told: dict[str, Any] = {
            "id": self.id,
            "verdict": self.verdict,
            "message": self.message,
            "remedy": self.remedy,
        }
        return told if self.seconds is None else {**told, "seconds": round(self.seconds, 3)}


def ok(name: str, message: str, seconds: float | None = None) -> Check:
    return Check(name, "ok", message, seconds=seconds)


def warned(name: str, message: str, remedy: str) -> Check:
    return Check(name, "warning", message, remedy)


def failed(name: str, error: CollectError, seconds: float | None = None) -> Check:
    return Check(name, "failure", error.message, error.remedy, error, seconds)
