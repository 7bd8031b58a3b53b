"""Is a profile parsed? A look at names and last bytes, which costs nothing. The validation says whether it is good.

torch_npu's own marks do not tell: it leaves analyse.done and says "All profiling data parsed" after parses that failed.
"""

from __future__ import annotations

import os
import re
from typing import List

OUTPUT = "ASCEND_PROFILER_OUTPUT"
INFO = re.compile(r"profiler_info(_\d+)?\.json")
_RAW = ("PROF_", "FRAMEWORK")
_TEXT = ("trace_view.json", "kernel_details.csv", "step_trace_time.csv")
_DATABASE = re.compile(r"ascend_pytorch_profiler(_\d+)?\.db")
_TAIL_BYTES = 64
_SQLITE = b"SQLite format 3\0"


def raw(directory: str) -> List[str]:
    """Names of what the profiler recorded: the device's part (PROF_*) and the framework's."""
    return [name for name in sorted(os.listdir(directory)) if name.startswith(_RAW)]


def is_closed(directory: str) -> bool:
    """The profiler was stopped: what it recorded is whole."""
    return any(INFO.fullmatch(name) for name in os.listdir(directory))


def hopeless(directory: str) -> str:
    """Why no parser can make a profile of this; "" when one can."""
    if not is_closed(directory):
        return "the profiler was not stopped"
    if not any(name.startswith("PROF_") for name in raw(directory)):
        return "nothing was recorded on the device (there is no PROF_ directory)"
    return ""


def unfinished(directory: str, export: List[str]) -> str:
    """Why the profile in `directory` is not parsed as `export` (text, db) asks; "" when it is."""
    output = os.path.join(directory, OUTPUT)
    names = os.listdir(output) if os.path.isdir(output) else []
    if not names:
        return "it was not parsed"
    wanted = list(_TEXT) if "text" in export else []
    databases = [name for name in names if _DATABASE.fullmatch(name)]
    missing = [name for name in wanted if name not in names]
    missing += ["ascend_pytorch_profiler.db"] if "db" in export and not databases else []
    if missing:
        return "{} {} not there".format(", ".join(missing), "are" if len(missing) > 1 else "is")
    for name in sorted({*wanted, *databases, *(name for name in names if name.endswith(".csv"))}):
        if not _ends_well(os.path.join(output, name)):
            return "{} is cut off".format(name)
    return ""


def _ends_well(path: str) -> bool:
    """A JSON list ends with its bracket, a table with a line end, a database with its last page."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        if path.endswith(".db"):
            head = file.read(32)
            page = int.from_bytes(head[16:18], "big")
            page = 65536 if page == 1 else page
            return head[:16] == _SQLITE and size >= page * int.from_bytes(head[28:32], "big")
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read()
    return tail.rstrip(b" \r\n\t").endswith(b"]") if path.endswith(".json") else tail.endswith(b"\n")
