"""The first part of the survey's program: npu-smi is asked while the rest of it is still being read and compiled."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .looking import Looking
    from .pythons import version
    from .reader import SOURCES

if __name__ == "__main__":
    # A run could have this Python: no better one is searched for.
    fits = sys.version_info >= (3, 8) and version("torch") and version("torch_npu")
    looking = Looking(SOURCES) if fits else None
