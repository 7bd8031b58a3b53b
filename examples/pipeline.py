"""A pipeline: profile a fleet, and compare every host's slowest kernel with yesterday's.

python pipeline.py inventory.yaml sweeps/today [sweeps/yesterday]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from collect_remote import CollectError, Profile, cells_of, load_inventory, sweep

WORSE = 1.1


def slowest_kernel(profile: Profile) -> tuple[str, float]:
    """Its name and its longest call in microseconds."""
    rows = profile.rows("kernel_details.csv", phase="decode", rank=0)
    longest = max(rows, key=lambda row: float(row["Duration(us)"]))
    return longest["Name"], float(longest["Duration(us)"])


def told(event: dict[str, Any]) -> None:
    if event["stage"] == "ended":
        print(event["cell"], event["state"], file=sys.stderr)


def main(inventory: str, today: str, yesterday: str | None = None) -> int:
    known = load_inventory(inventory)
    begun = (Path(today) / "journal.sqlite").exists()
    cells = None if begun else cells_of(known, phases=["decode"])
    done = sweep(known, cells, today, on_event=told)
    for one in done.cells:
        if one.outcome is None or one.outcome.directory is None:
            continue
        name, us = slowest_kernel(Profile.at(one.outcome.directory))
        print(f"{one.cell.key}: {name} {us:.1f} us")
        for earlier in Path(yesterday).glob(f"profiles/{one.cell.host}/{one.cell.model}/*_*") if yesterday else ():
            before = slowest_kernel(Profile.at(earlier))
            if us > WORSE * before[1]:
                print(f"  was {before[0]} {before[1]:.1f} us")
    return done.exit_code


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except CollectError as error:
        print(f"{error.message}\n{error.remedy}", file=sys.stderr)
        sys.exit(error.exit_code)
