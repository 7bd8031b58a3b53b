"""The keys that an ssh-agent holds, certificates included."""

from __future__ import annotations

import socket
from typing import Any

import paramiko
from paramiko.agent import AgentSSH
from paramiko.pkey import PublicBlob

from . import agent_socket

CERTIFICATE = "-cert-v01@openssh.com"
SIGNING_TIMEOUT_S = 60.0  # it may ask its user


class Agent:
    """The agent behind the socket that `where` names as IdentityAgent does; one without keys when there is none.

    `held`: its keys by their public halves, or by their certificates, in its order.
    """

    def __init__(self, where: str) -> None:
        self.held: dict[bytes, Any] = {}
        agent: Any = AgentSSH()
        self._agent = agent
        path = agent_socket.usable(where)
        if path is None:
            return
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(agent_socket.ANSWER_S)
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
