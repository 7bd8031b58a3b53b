"""The keys that an ssh-agent holds, certificates included."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import paramiko
from paramiko.agent import AgentSSH
from paramiko.pkey import PublicBlob

CERTIFICATE = "-cert-v01@openssh.com"
LISTING_TIMEOUT_S = 10.0
SIGNING_TIMEOUT_S = 60.0  # it may ask its user


class Agent:
    """The agent behind the socket that `where` names as IdentityAgent does; one without keys when there is none.

    `held`: its keys by their public halves, or by their certificates, in its order.
    """

    def __init__(self, where: str) -> None:
        self.held: dict[bytes, Any] = {}
        agent: Any = AgentSSH()
        self._agent = agent
        path = _socket_path(where)
        if path is None:
            return
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(LISTING_TIMEOUT_S)
        try:
            sock.connect(str(path))
            agent._connect(sock)  # what paramiko.Agent does with the socket of the environment
        except (paramiko.SSHException, OSError):
            sock.close()
            return
        sock.settimeout(SIGNING_TIMEOUT_S)
        for key in agent.get_keys():
            if key.get_name().endswith(CERTIFICATE):  # paramiko would send the bare key under the certificate's name
                key.public_blob = PublicBlob(key.get_name(), key.blob)
            self.held[key.blob] = key

    def close(self) -> None:
        self._agent._close()


def _socket_path(where: str) -> Path | None:
    """Of an IdentityAgent: a path, SSH_AUTH_SOCK, $VARIABLE, or none."""
    if where.lower() == "none":
        return None
    if where == "SSH_AUTH_SOCK" or where.startswith("$"):
        where = os.environ.get(where.lstrip("$").strip("{}"), "")
    return Path(where).expanduser() if where else None
