"""A disk of the host that says odd things of its files: whose they are, who may write to them, that they can be locked.

SimHost(root, env=odd_disk.environment(root, "foreign"))
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal

SOURCE = Path(__file__).with_suffix(".c")


def environment(root: Path, says: Literal["foreign", "open", "unlockable"]) -> dict[str, str]:
    """Variables of a session (``Knobs.env``) to which everything below `root`/work is on such a disk.

    Raises FileNotFoundError without gcc.
    """
    library = root.parent / "odd_disk.so"
    if not library.exists():
        command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
    return {"LD_PRELOAD": str(library), "ODD_DISK": f"{root.resolve()}/work", "ODD_DISK_SAYS": says}
