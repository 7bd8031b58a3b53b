"""What commands say: results on stdout, as text or as one JSON document; errors on stderr."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from typing import Any

from .errors import CollectError


def complain(error: CollectError, as_json: bool) -> None:
    with contextlib.suppress(OSError):  # nobody may be reading
        explain(error)
    if as_json:
        print_json({"error": error.to_json()})


def explain(error: CollectError) -> None:
    for line in error.log:
        sys.stderr.write(f"    | {line}\n")
    where = f"{error.host}: " if error.host and error.host not in error.message else ""
    during = f" (while {error.stage})" if error.stage else ""
    sys.stderr.write(f"error: {where}{error.message}{during}\n")
    if error.remedy:
        sys.stderr.write(f"  try: {error.remedy}\n")


def print_json(document: Any, indent: int | None = 1) -> None:
    json.dump(document, sys.stdout, indent=indent, default=str)
    sys.stdout.write("\n")


def show(options: argparse.Namespace, document: Any, text: str) -> None:
    if options.json:
        print_json(document)
    else:
        sys.stdout.write(text)
