"""A ``python3`` that says it is 3.6.8.

It answers version questions (``-V``, and ``-c`` code through a patched ``sys``); of any program it says what
a 3.6 says of newer source.
"""

from __future__ import annotations

import platform
import sys
from typing import List

VERSION = "3.6.8"


def main(arguments: List[str]) -> int:
    """Run as ``python3 <arguments>``; the exit status."""
    if arguments and arguments[0] in ("-V", "--version"):
        sys.stdout.write("Python %s\n" % VERSION)
        return 0
    while arguments and arguments[0] != "-c" and arguments[0].startswith("-") and len(arguments[0]) > 1:
        arguments = arguments[1:]
    if len(arguments) > 1 and arguments[0] == "-c":
        sys.version_info = (3, 6, 8, "final", 0)  # type: ignore[assignment]
        sys.version = VERSION + " (default, Mar 18 2021, 08:58:41) \n[GCC 8.4.0]"
        sys.hexversion = 0x030608F0
        platform.python_version = lambda: VERSION
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
        return 0
    sys.stderr.write('  File "%s", line 1\n' % (arguments[0] if arguments else "<stdin>"))
    sys.stderr.write("SyntaxError: future feature annotations is not defined\n")
    return 1
