"""What the simulated host says of its installation of torch and torch_npu: versions, and what fails on import.

``$SIMHOST/software`` has lines ``version <distribution> <version>``, ``library <name>`` and ``import <how it ends>``;
it is missing where nothing is special.
"""

from __future__ import annotations

import os
import sys
import time
from typing import List

_said: List[List[str]] = []
if os.environ.get("SIMHOST"):
    try:
        with open(os.path.join(os.environ["SIMHOST"], "software")) as _file:
            _said = [line.split() for line in _file]
    except FileNotFoundError:
        pass

# A library that torch bundles, and that often comes too late for its part of the thread-local data on aarch64.
_LATE = "torch.libs/libgomp-804f19d4.so.1.0.0"


def version(distribution: str, usual: str) -> str:
    """The version of a distribution."""
    return next((words[2] for words in _said if words[:2] == ["version", distribution]), usual)


def load_libraries() -> None:
    """Load what torch_npu is linked to: ImportError in the dynamic linker's words, or how else the import ends."""
    if not os.environ.get("ASCEND_HOME_PATH"):
        _not_found("libhccl.so")  # CANN's set_env.sh has not been sourced
    for words in _said:
        if words[0] == "library" and not _on_path(words[1]):
            _not_found(words[1])
    how = next((words[1] for words in _said if words[0] == "import"), "works")
    if how == "hangs":
        while True:
            time.sleep(3600)
    elif how == "aborts":
        _abort()
    elif how == "static-tls":
        late = os.path.join(os.path.dirname(os.path.abspath(__file__)), _LATE)
        if _LATE.rpartition("/")[2] not in os.environ.get("LD_PRELOAD", ""):
            raise ImportError(late + ": cannot allocate memory in static TLS block")


def _on_path(library: str) -> bool:
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return any(os.path.exists(os.path.join(folder, library)) for folder in folders if folder)


def _not_found(library: str) -> None:
    raise ImportError(library + ": cannot open shared object file: No such file or directory")


def _abort() -> None:
    """End as CANN ends a process when its own Python modules cannot be loaded."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stderr.write(
        "EH9999: Inner Error!\n"
        "EH9999: [PID: {}] {} [Init][Env]init env failed!\n"
        "        TraceBack (most recent call last):\n".format(os.getpid(), time.strftime("%Y-%m-%d-%H:%M:%S"))
    )
    sys.stderr.flush()
    os.abort()
