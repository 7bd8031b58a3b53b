"""The checks of a profile: one table, each with its id, what it catches, and where the rule comes from."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple

from .facts import Facts

PASS, FAIL, WARN, UNPROVEN, NA = "pass", "fail", "warn", "unproven", "na"


class Result(NamedTuple):
    """The outcome of one check; `figures` are the numbers behind it, JSON values by name."""

    verdict: str
    message: str
    figures: Dict[str, Any]
    remedy: str = ""


def passed(message: str, **figures: Any) -> Result:
    return Result(PASS, message, figures)


def failed(message: str, remedy: str = "", **figures: Any) -> Result:
    """`remedy` replaces the one of the check when the cause is known better."""
    return Result(FAIL, message, figures, remedy)


def warned(message: str, remedy: str = "", **figures: Any) -> Result:
    return Result(WARN, message, figures, remedy)


def unproven(message: str, remedy: str = "", **figures: Any) -> Result:
    """Neither shown nor refuted by the data at hand."""
    return Result(UNPROVEN, message, figures, remedy)


def absent(message: str) -> Result:
    """The check does not apply, or what it would judge has failed another check already."""
    return Result(NA, message, {})


Judge = Callable[[Facts], Result]


class Check(NamedTuple):
    """One rule of validity."""

    id: str
    catches: str
    source: str
    remedy: str
    judge: Judge

    def run(self, facts: Facts) -> Dict[str, Any]:
        """{"id", "verdict", "message", "remedy", figures...}; no remedy where nothing is wrong."""
        result = self.judge(facts)
        good = result.verdict in (PASS, NA)
        return dict(
            id=self.id,
            verdict=result.verdict,
            message=result.message,
            remedy="" if good else result.remedy or self.remedy,
            **result.figures,
        )


CHECKS: Dict[str, Check] = {}


def check(name: str, *, catches: str, source: str, remedy: str) -> Callable[[Judge], Judge]:
    """Enter the decorated function into CHECKS as `name`; they run in the order of the table."""

    def enter(judge: Judge) -> Judge:
        CHECKS[name] = Check(name, catches, source, remedy, judge)
        return judge

    return enter
