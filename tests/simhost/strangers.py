"""Servers that listen where an SSH server was expected, and are none. Each gives the port that it has on loopback."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator

from .link import ADDRESS


@contextlib.contextmanager
def silent_server(first: bytes = b"") -> Iterator[int]:
    """Accepts every connection, as the kernel does for a listener that never looks, and says no more than `first`."""
    with socket.create_server((ADDRESS, 0), backlog=128) as listener, contextlib.ExitStack() as accepted:

        def greet() -> None:
            with contextlib.suppress(OSError):  # the end of the listener
                while True:
                    accepted.enter_context(listener.accept()[0]).sendall(first)

        greeting = threading.Thread(target=greet) if first else None
        if greeting:
            greeting.start()
        yield listener.getsockname()[1]
        if greeting:
            listener.shutdown(socket.SHUT_RDWR)
            greeting.join()


@contextlib.contextmanager
def web_server(answer: bytes = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n") -> Iterator[int]:
    """Answers the first thing that it is told with `answer`, and closes."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):
                self.request.recv(1 << 16)
                self.request.sendall(answer)

    with _served(socketserver.TCPServer((ADDRESS, 0), Answer)) as port:
        yield port


@contextlib.contextmanager
def tamperer(host: str, port: int, at: int) -> Iterator[int]:
    """Stands in between, and changes one bit of what the server says: of its byte number `at`, from 0."""

    class Between(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection((host, port)) as server:
                asking = threading.Thread(target=self.carry, args=(self.request, server, None), daemon=True)
                asking.start()
                self.carry(server, self.request, at)
                for end in (server, self.request):
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                asking.join()

        def carry(self, source: socket.socket, target: socket.socket, changed: int | None) -> None:
            carried = 0
            with contextlib.suppress(OSError):
                while data := bytearray(source.recv(1 << 16)):
                    if changed is not None and carried <= changed < carried + len(data):
                        data[changed - carried] ^= 1
                    carried += len(data)
                    target.sendall(data)

    with _served(socketserver.ThreadingTCPServer((ADDRESS, 0), Between)) as ours:
        yield ours


@contextlib.contextmanager
def _served(server: socketserver.TCPServer) -> Iterator[int]:
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
