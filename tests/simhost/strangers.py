"""Servers that listen where an SSH server was expected, and are none. Each gives the port that it has on loopback."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator

from .link import ADDRESS


@contextlib.contextmanager
def silent_server() -> Iterator[int]:
    """Accepts every connection, as the kernel does for a listener that never looks, and says nothing."""
    with socket.create_server((ADDRESS, 0), backlog=128) as listener:
        yield listener.getsockname()[1]


@contextlib.contextmanager
def web_server(answer: bytes = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n") -> Iterator[int]:
    """Answers the first thing that it is told with `answer`, and closes."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):
                self.request.recv(1 << 16)
                self.request.sendall(answer)

    with socketserver.TCPServer((ADDRESS, 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
