"""`scripts/bench`: runs benchmarks and prints their tables, or writes them into the page."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
NAMES = ("tool", "fleet", "npu-smi", "validate", "pack", "pull", "chain")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--rounds", type=int, default=5, help="of each, interleaved; medians are told")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md")
    options = parser.parse_args()
    for name in options.names or NAMES:
        module = importlib.import_module("benches." + name.replace("-", "_"))
        tables = f"{module.run(options.rounds)}\n\n{machine()}"
        print(f"## {name}\n\n{tables}\n", flush=True)
        if options.write:
            PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), name, tables), encoding="utf-8")
    return 0


def written(page: str, name: str, tables: str) -> str:
    """The page with `tables` between the marks of the benchmark `name`."""
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    new, count = re.subn(f"(?s){re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}{tables}{end}", page)
    if count != 1:
        sys.exit(f"error: {PAGE} has no place for {name}: {begin.strip()} ... {end.strip()}")
    return new


def machine() -> str:
    ssh = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=False).stderr.partition(",")[0].strip()
    python = platform.python_version()
    busy = os.getloadavg()[0]
    return f"{os.cpu_count()} virtual cores, {platform.machine()}, {ssh}, Python {python}; load at the end {busy:.1f}."


if __name__ == "__main__":
    sys.exit(main())
