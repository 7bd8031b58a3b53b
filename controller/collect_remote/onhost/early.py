"""The first part of the survey's program: npu-smi is asked while the rest of it is still being read and compiled."""

import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict  # noqa: F401 - used in comments

    from collect_agent.npu.look import look

    from .pythons import version
    from .reader import lead_own_group, leave_with_reader


class Looking(threading.Thread):
    """npu-smi being asked; nothing of it is left behind when our reader goes."""

    def __init__(self):
        # type: () -> None
        threading.Thread.__init__(self)
        self.seen = {}  # type: Dict[str, Any]
        lead_own_group()
        self.start()
        leave_with_reader()

    def run(self):
        # type: () -> None
        self.seen = look(45.0)

    def found(self):
        # type: () -> Dict[str, Any]
        self.join()
        return self.seen


if __name__ == "__main__":
    # A run could have this Python: no better one is searched for.
    fits = sys.version_info >= (3, 8) and version("torch") and version("torch_npu")
    looking = Looking() if fits else None
