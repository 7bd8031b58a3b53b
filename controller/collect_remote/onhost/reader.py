"""A program that ends with whoever reads what it prints: nothing that it started is left behind."""

import os
import select
import signal
import threading

unfinished = threading.Lock()  # held while there is something on the disk to take away again


def lead_own_group():
    # type: () -> None
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)


def leave_with_reader():
    # type: () -> None
    watch = threading.Thread(target=_watch)
    watch.daemon = True
    watch.start()


def _watch():
    # type: () -> None
    """Whoever asked has gone: a hanging npu-smi is not left behind, nor one that is just being started."""
    poller = select.poll()
    poller.register(1, 0)
    poller.poll()
    with unfinished:
        os.killpg(0, signal.SIGKILL)
