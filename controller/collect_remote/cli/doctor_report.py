"""What the doctor found, as text for a person and as the document of `--json`. Pure; no secret is shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from ..checks.doctor import Report
from ..errors import one_line
from ..survey.environment import masked
from ..survey.survey import Facts
from .say import page

LONGEST = 1000  # characters of a line; --json has all of them


def document(reports: Sequence[Report]) -> dict[str, Any]:
    """For `--json`. Pure."""
    return {
        "hosts": [
            {
                "host": report.host,
                "verdict": report.verdict,
                "checks": [check.to_json() for check in report.checks],
                "environment": environment(report.facts) if report.facts else {},
            }
            for report in reports
        ]
    }


def environment(facts: Facts) -> dict[str, Any]:
    """The captured environment as it may be shown. Pure."""
    return {
        "container": container(facts),
        "python": facts.python,
        "python_version": ".".join(map(str, facts.python_version)),
        "python_why": facts.python_why,
        "setup": list(facts.setup),
        "cann": {
            "version": facts.cann_version,
            "path": facts.cann,
            "found": [{"version": version or None, "script": script} for version, script in facts.canns],
        },
        "driver": facts.driver_version,
        "versions": dict(facts.versions),
        "variables": masked(facts.environment),
    }


def container(facts: Facts) -> dict[str, Any] | None:
    """What is known of the container, null on a host without one. Pure."""
    box = facts.container
    return {**box.document(), "mounts": [dataclasses.asdict(mount) for mount in box.mounts]} if box else None


def text(reports: Sequence[Report]) -> str:
    """For a person: a line a check, and what to do under those that are not ok. Pure."""
    return "\n".join("".join(f"{line}\n" for line in _lines(report)) for report in reports)


def _lines(report: Report) -> Iterator[str]:
    yield f"{report.host}: {report.verdict}"
    width = max(len(check.id) for check in report.checks)
    for check in report.checks:
        took = "" if check.seconds is None else f" ({check.seconds:.2f} s)"
        yield f"  {check.verdict:7}  {check.id:{width}}  {one_line(check.message, LONGEST)}{took}"
        if check.remedy:
            yield f"  {'':7}  {'':{width}}  try: {one_line(check.remedy, LONGEST)}"
            yield f"  {'':7}  {'':{width}}  see: {page(check.entry)}"
    if report.facts:
        facts = report.facts
        yield f"  environment: {facts.python} ({facts.python_why})"
        yield f"    scripts: {', '.join(facts.setup) or 'none'}"
        yield f"    CANN {facts.cann_version or 'unknown'}, {len(facts.environment)} variables (--json shows them)"
