"""The start-up shim: files that make the profiler of any Python program record what was asked for.

A directory with them, first on PYTHONPATH, is enough: `sitecustomize.py` runs when a Python starts. Nothing of the
program is changed, and nothing happens without `COLLECT_REMOTE_SHIM`, the path of a request (see `request.py`).
"""

from __future__ import annotations

import os
import pkgutil
from typing import Dict, Mapping

from . import collect_remote_shim

VARIABLE = "COLLECT_REMOTE_SHIM"


def install(directory: str) -> None:
    """Write the files below `directory`, which is made. OSError when they cannot be written."""
    package = "collect_remote_shim"
    names = [name for _, name, _ in pkgutil.iter_modules(collect_remote_shim.__path__)]
    os.makedirs(os.path.join(directory, package), exist_ok=True)
    for path in ("sitecustomize.py", *("{}/{}.py".format(package, name) for name in ("__init__", *names))):
        content = pkgutil.get_data(__name__, path)  # the agent itself is a zipapp
        if content is None:
            raise FileNotFoundError(path)
        with open(os.path.join(directory, path), "wb") as file:
            file.write(content)


def environment(directory: str, request_path: str, env: Mapping[str, str]) -> Dict[str, str]:
    """`env` for a program whose Pythons are to be met by the shim of `directory` with that request. Pure."""
    others = [place for place in env.get("PYTHONPATH", "").split(os.pathsep) if place and place != directory]
    return dict(env, PYTHONPATH=os.pathsep.join([directory, *others]), **{VARIABLE: request_path})
