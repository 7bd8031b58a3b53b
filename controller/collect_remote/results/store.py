"""The tree of results here: a name in it means verified, and nothing in it is ever overwritten.

profiles/<host>/<model>/<run id>/{profile_l1.tar.gz, manifest.json, run.log}, .../latest -> <run id>
profiles/.incoming/<run id>.<random>/     what is not finished: see `growing`
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collect_agent.run.rundir import sync_directory

from ..errors import Trouble, UsageError, storage_error

ROOT = Path("profiles")
MANIFEST = "manifest.json"
EXISTS = Trouble(
    "result-exists",
    UsageError,
    "{directory} exists already, and a result is never overwritten",
    "`--out` names the directory of the result itself, not one to put it into",
    "name a directory that does not exist",
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one result will stand, and where it grows until then; both on one file system."""

    final: Path
    incoming: Path
    latest: Path | None


def place(host: str, model: str, run_id: str, out: Path | None = None) -> Place:
    """Names only, nothing is made. UsageError when the result directory exists."""
    if out is not None:
        final, root, latest = out, out.parent, None
    else:
        root = ROOT
        final = root / host / model / run_id
        latest = final.parent / "latest"
    if os.path.lexists(final):
        raise EXISTS(directory=final)
    return Place(final, root / ".incoming" / f"{run_id}.{os.urandom(3).hex()}", latest)


def partial(where: Place) -> Place:
    """Where what is not valid goes: never under the name of a result, and `latest` is none of it."""
    final = where.final if where.latest is None else where.final.with_name(where.final.name + ".partial")
    return Place(final, where.incoming, None)


def publish(where: Place, manifest: dict[str, Any]) -> None:
    """Write the manifest beside the archive and give the whole its final name, at once."""
    try:
        with (where.incoming / MANIFEST).open("x", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        where.final.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(where.final):
            raise UsageError(
                f"{where.final} appeared while the run was going on",
                "look whether another `attach` has brought it there",
            )
        where.incoming.rename(where.final)
        sync_directory(where.final.parent)
    except OSError as error:
        raise storage_error(where.final.parent, error) from error
    if where.latest is not None:
        with contextlib.suppress(OSError):  # the result stands whatever `latest` is here
            fresh = where.latest.with_name(f".latest-{where.final.name}")
            fresh.symlink_to(where.final.name)
            fresh.replace(where.latest)
