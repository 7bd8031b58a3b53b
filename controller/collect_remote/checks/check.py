"""What a check looks at, and what it has to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..errors import CollectError

Verdict = Literal["ok", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Subject:
    """What checks of this id look at, and what they say when it is not well: a line of docs/troubleshooting.md.

    `remedy` is the usual one: a case that knows better has its own. `says` has the words of one case in braces.
    """

    id: str
    looks_at: str
    remedy: str
    says: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One check with a stable id. `error`: what a collection ends with, for a failure. `seconds` that it took."""

    id: str
    verdict: Verdict
    message: str
    remedy: str = ""
    error: CollectError | None = None
    seconds: float | None = None

    @property
    def entry(self) -> str:
        """Its heading in docs/troubleshooting.md."""
        return self.error.entry if self.error else self.id

    def to_json(self) -> dict[str, Any]:
        """For `--json`; `seconds` only where there are some."""
        told: dict[str, Any] = {
            "id": self.id,
            "verdict": self.verdict,
            "message": self.message,
            "remedy": self.remedy,
            "entry": self.entry,
        }
        return told if self.seconds is None else {**told, "seconds": round(self.seconds, 3)}


def ok(subject: Subject, message: str, seconds: float | None = None) -> Check:
    return Check(subject.id, "ok", message, seconds=seconds)


def warned(subject: Subject, message: str, remedy: str = "") -> Check:
    return Check(subject.id, "warning", message, remedy or subject.remedy)


def passed_on(subject: Subject, error: CollectError) -> Check:
    """A failure that others have found, who know what to do about it."""
    return Check(subject.id, "failure", error.message, error.remedy, error)


def failed(subject: Subject, error: CollectError, seconds: float | None = None) -> Check:
    """The error has its subject's remedy and entry, unless it has its own."""
    error.remedy = error.remedy or subject.remedy
    error.belongs_to(subject.id)
    return Check(subject.id, "failure", error.message, error.remedy, error, seconds)
