"""A ProxyCommand: a program of the user's that carries the connection on its standard input and output."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile


class Proxy:
    """The running command. `socket` is our end of it: a real one, so that its end is noticed and time-outs hold."""

    def __init__(self, command: str) -> None:
        """Start `command` by a shell, as ssh does.

        It stays in our session, where it may ask on the terminal; a Ctrl-C there, which stops a run over the
        connection, does not end it.
        """
        self.socket, theirs = socket.socketpair()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the proxy
        with theirs:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"trap '' INT; exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._said,
            )

    def last_words(self) -> str:
        """The end of what it has printed to its standard error."""
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def close(self) -> None:
        self.socket.close()
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._said.close()
