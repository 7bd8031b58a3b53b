"""``pgrep [-f] PATTERN`` on a host that shares its machine with others: it sees the processes of its own host.

As the real one (procps 4): the pids, one a line, of processes whose name, or whose whole command line with -f, has the
pattern in it; never its own.  Exit status 0 when there are any, 1 when there are none, 2 for wrong use.
"""

from __future__ import annotations

import os
import re
import sys

from . import driver

WHOLE_LINE = "-f"


def main(directory: str, arguments: list[str]) -> int:
    whole = WHOLE_LINE in arguments
    patterns = [argument for argument in arguments if argument != WHOLE_LINE]
    if len(patterns) != 1 or patterns[0].startswith("-"):
        sys.stderr.write("pgrep: only one pattern can be provided, and no option but -f\n")
        return 2
    pattern = re.compile(patterns[0])
    found = [pid for pid in driver.processes(directory) if pid != os.getpid() and pattern.search(_words(pid, whole))]
    sys.stdout.write("".join("%d\n" % pid for pid in found))
    return 0 if found else 1


def _words(pid: int, whole: bool) -> str:
    """The command line of a process, or its name; nothing of one that has just ended."""
    try:
        with open("/proc/%d/%s" % (pid, "cmdline" if whole else "comm"), "rb") as file:
            return os.fsdecode(file.read()).rstrip("\0\n").replace("\0", " ")
    except OSError:
        return ""
