"""docs/checks.md, written from the registry of checks: `python tests/checks_page.py > docs/checks.md`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "agent"))

from collect_agent.validate import CHECKS, TREE_CHECKS

HEAD = """\
# Checks

What `collect-remote validate` looks at, on the host before anything is packed, after the pull, and whenever somebody
asks. This page is written from the registry in `agent/collect_agent/validate`.

A check says `pass`, `fail`, `warn`, `unproven` (neither shown nor refuted by the data) or `na`. One `fail` makes a
profile *invalid*; without one, one `unproven` makes it *unproven*; everything else is *valid*. Exit status 0 for valid,
7 otherwise; with `--allow-unproven` 0 for unproven too. With `--json`:

    {"path", "verdict": "valid" | "invalid" | "unproven", "checks": [...], "profiles": [{"phase", "rank", "directory",
     "chip", "level", "metrics", "steps", "checks": [{"id", "verdict", "message", "remedy", figures...}]}]}

What was asked for is taken from the manifest beside the profile; without one, Level1 with PipeUtilization is. Warm-up
that ran outside the profiler leaves no trace in it: a profile without a manifest of ours is `unproven` at best. Then
`warmup-outside` tells what its steps say for and against, with `WARMUP_NOT_STRIPPED` among its `flags` where the
analysis downstream would say so.

Never asked: exit statuses, done-marks, "All profiling data parsed", the number of columns. torch_npu prints and sets
all of them after parses that failed, and healthy profiles have 36 to 49 columns, by chip and version.
"""

UNSEEN = """\
## What a profile alone cannot tell

A manifest of ours has the digest of every file; where it lies beside the profile, no change of a byte passes. Without
one, these do, because nothing else in the profile says the same thing:

* whole rows gone from tables that no other file sums up: api_statistic, operator_details, those of memory;
* these tables, communication_matrix.json or profiler_metadata.json of another rank of the same run;
* digits of figures that stand in one file only: core counters, shapes, waiting times; digits of a time below the
  tolerance of its sum (1 us, or a ten-thousandth); a collective that lasts into the next;
* a few kernels gone from the trace of a profile of more than four thousand: a sample of them is looked for;
* values changed inside records of a database, and rows gone from it;
* columns under other names that no rule rests on: those no known export has are named by a warning.

What the profiler's own lines mean is in [troubleshooting.md](troubleshooting.md#what-the-profiler-prints).
"""


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def page() -> str:
    columns = "| id | what it catches | source of the rule | what to do |\n| --- | --- | --- | --- |"
    parts = [HEAD]
    for title, checks in (("Of the whole", TREE_CHECKS), ("Of every profile", CHECKS)):
        parts += [f"## {title}\n", columns]
        parts += [f"| `{id_}` | {cell(c.catches)} | {cell(c.source)} | {cell(c.remedy)} |" for id_, c in checks.items()]
        parts.append("")
    return "\n".join([*parts, UNSEEN])


if __name__ == "__main__":
    sys.stdout.write(page())
