"""A TCP connection that is made while something else is going on: importing paramiko takes as long."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import Future

from ..ssh_config import Hop


def dial(hop: Hop) -> Future[socket.socket]:
    """Connect to `hop` in the background. The result raises what `socket.create_connection` raises."""
    future: Future[socket.socket] = Future()

    def connect() -> None:
        try:
            future.set_result(socket.create_connection((hop.address, hop.port), timeout=hop.connect_timeout))
        except OSError as error:
            future.set_exception(error)

    threading.Thread(target=connect, daemon=True).start()
    return future
