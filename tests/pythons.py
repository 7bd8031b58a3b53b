"""The Pythons of this machine that a simulated host, or the agent, may have to run on: 3.8 and later."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

MINORS = range(8, 15)


def pythons() -> dict[str, str]:
    """{"3.8": path}, one interpreter a version; from PATH, and from pyenv's versions where its shims are on PATH."""
    roots = {Path.home() / ".pyenv"}
    roots |= {Path(folder).parent for folder in os.environ.get("PATH", "").split(":") if folder.endswith("/shims")}
    found = {}
    for minor in MINORS:
        name = f"python3.{minor}"
        installed = sorted(str(path) for root in roots for path in (root / "versions").glob(f"3.{minor}.*/bin/{name}"))
        on_path = shutil.which(name)
        # A shim only works for the versions that pyenv has switched on.
        if on_path and Path(on_path).parent.name != "shims":
            installed.append(on_path)
        if installed:
            found[f"3.{minor}"] = installed[-1]
    return found


def others() -> dict[str, str]:
    """All but the version that runs this."""
    mine = f"3.{sys.version_info[1]}"
    return {version: path for version, path in pythons().items() if version != mine}


if __name__ == "__main__":
    print(*others().values(), sep="\n")
