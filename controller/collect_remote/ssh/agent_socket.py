"""Where an ssh-agent listens, and whether it answers at all: one that hangs is asked once and then passed over."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from pathlib import Path

ANSWER_S = 10.0
_WHAT_IT_HOLDS = b"\0\0\0\1\x0b"  # SSH_AGENTC_REQUEST_IDENTITIES (RFC 9987): one byte, its length in front

_hanging: set[Path] = set()
_asking = threading.Lock()  # of many hosts at once, one asks

log = logging.getLogger(__name__)


def usable(where: str) -> Path | None:
    """The socket that `where` names as IdentityAgent does, unless what listens there gives no answer.

    That takes `ANSWER_S` seconds and a warning, once a process. A socket without a listener is no reason to wait.
    """
    path = named(where)
    if path is None:
        return None
    with _asking:
        if path not in _hanging and not _answers(path):
            _hanging.add(path)
            log.warning(
                "the ssh-agent at %s gives no answer in %g s: it is passed over; restart it, or name another "
                "as IdentityAgent in ~/.ssh/config",
                path,
                ANSWER_S,
            )
        return None if path in _hanging else path


def named(where: str) -> Path | None:
    """Of an IdentityAgent: a path, SSH_AUTH_SOCK, $VARIABLE, or none."""
    if where.lower() == "none":
        return None
    if where == "SSH_AUTH_SOCK" or where.startswith("$"):
        where = os.environ.get(where.lstrip("$").strip("{}"), "")
    return Path(where).expanduser() if where else None


def _answers(path: Path) -> bool:
    """False only when it is there and silent."""
    with socket.socket(socket.AF_UNIX) as sock, contextlib.suppress(OSError):
        sock.settimeout(ANSWER_S)
        try:
            sock.connect(str(path))
            sock.sendall(_WHAT_IT_HOLDS)
            sock.recv(1)
        except TimeoutError:
            return False
    return True
