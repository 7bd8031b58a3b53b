"""npu-smi at work, while others look at what else there is."""

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple  # noqa: F401 - used in comments

    from collect_agent.npu.look import look

    from .reader import lead_own_group, leave_with_reader


class Looking(threading.Thread):
    """npu-smi being asked; nothing of it is left behind when our reader goes."""

    def __init__(self, readers):
        # type: (Tuple[int, ...]) -> None
        threading.Thread.__init__(self)
        self.seen = {}  # type: Dict[str, Any]
        lead_own_group()
        self.start()
        leave_with_reader(readers)

    def run(self):
        # type: () -> None
        self.seen = look(45.0)

    def found(self):
        # type: () -> Dict[str, Any]
        self.join()
        return self.seen
