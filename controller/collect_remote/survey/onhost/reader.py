"""A program that ends with whoever reads what it prints: nothing that it started is left behind."""

import os
import select
import signal
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple  # noqa: F401 - used in comments

INPUT = 9  # where a script keeps its own input for us: its end is all that a container is told of a reader
unfinished = threading.Lock()  # held while there is something on the disk to take away again


def _is_open(descriptor):
    # type: (int) -> bool
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


# Now, before anything of ours is opened and gets that number.
SOURCES = tuple(filter(_is_open, (1, INPUT)))


def lead_own_group():
    # type: () -> None
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)


def leave_with_reader(descriptors=SOURCES):
    # type: (Tuple[int, ...]) -> None
    """Leave when nobody is at the other end of one of these any more."""
    watch = threading.Thread(target=_watch, args=(descriptors,))
    watch.daemon = True
    watch.start()


def _watch(descriptors):
    # type: (Tuple[int, ...]) -> None
    """Whoever asked has gone: a hanging npu-smi is not left behind, nor one that is just being started."""
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, 0)
    poller.poll()
    with unfinished:
        os.killpg(0, signal.SIGKILL)
