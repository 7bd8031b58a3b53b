"""docs/checks.md, written from the registry of checks: `python tests/checks_page.py > docs/checks.md`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "agent"))

from collect_agent.validate import CHECKS, MESSAGES, TREE_CHECKS

HEAD = """\
# Checks

What `collect-remote validate` looks at, on the host before anything is packed, after the pull, and whenever somebody
asks. This page is written from the registry in `agent/collect_agent/validate`.

A check says `pass`, `fail`, `warn`, `unproven` (neither shown nor refuted by the data) or `na`. One `fail` makes a
profile *invalid*; without one, one `unproven` makes it *unproven*; everything else is *valid*. Exit status 0 for valid,
7 otherwise.

Never asked: exit statuses, done-marks, "All profiling data parsed", the number of columns. torch_npu prints and sets
all of them after parses that failed, and healthy profiles have 36 to 49 columns, by chip and version.
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
    parts += [
        "## Messages of the profiler that are explained\n",
        "| pattern | meaning | remedy |\n| --- | --- | --- |",
    ]
    parts += [f"| `{cell(m.pattern)}` | {cell(m.meaning)} | {cell(m.remedy)} |" for m in MESSAGES]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
