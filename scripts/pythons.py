"""Print every other Python from 3.8 on that this machine has, one path a version: on PATH, or below ~/.pyenv."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

for minor in range(8, 14):
    if minor == sys.version_info[1]:
        continue  # the main test run has it
    name = f"python3.{minor}"
    installed = sorted(str(path) for path in (Path.home() / ".pyenv/versions").glob(f"3.{minor}.*/bin/{name}"))
    found = shutil.which(name)
    # A pyenv shim on PATH only works for the versions that are switched on.
    if found and ".pyenv/shims" not in found:
        installed.append(found)
    if installed:
        print(installed[-1])
