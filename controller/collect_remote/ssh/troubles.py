"""What goes wrong on the way to a host, whichever transport finds it."""

from __future__ import annotations

import socket

from ..errors import AuthError, ConnectError, Trouble, UnreachableError

NO_NAME = Trouble(
    "name-does-not-resolve",
    UnreachableError,
    "{place}: the name does not resolve",
    "no name service here knows it, and neither ~/.ssh/config nor the inventory says where it is",
    "set `address` in the inventory, or HostName in ~/.ssh/config",
)
REFUSED = Trouble(
    "connection-refused",
    UnreachableError,
    "{place}: connection refused",
    "the machine is up, and nothing listens on that port",
    "check the port, and that sshd runs there",
)
JUMP = Trouble(
    "jump-host",
    UnreachableError,
    "{place}: the jump host cannot reach it: {why}",
    "the jump host let us in; the next step is up to its network, its name service, and its sshd's AllowTcpForwarding",
    "check `jump` and the port",
)
PROXY = Trouble(
    "proxy-command",
    UnreachableError,
    "{place}: its ProxyCommand brings no connection: {why}",
    "the command of ~/.ssh/config ended, or prints something else than an SSH server says; it may ask something",
    "try it: {command}",
)
NO_CONNECTION = Trouble(
    "no-connection",
    UnreachableError,
    "{place}: no connection after {seconds:.0f} s: {why}",
    "the host is down, or something on the way drops what we send",
    "check that the host is up and that a firewall lets you through",
)
NO_SERVER = Trouble(
    "no-ssh-server",
    UnreachableError,
    "{place} {what}",
    "another service on that port, a proxy that answers by itself, or a machine that is overloaded",
    "check the port, and that an sshd listens there",
    (
        "PLACE is not an SSH server: it said 'HTTP/1.1 400 Bad Request'",
        "PLACE accepted the connection but sent no SSH banner in 15 s",
    ),
)
HUNG_UP = Trouble(
    "server-hangs-up",
    UnreachableError,
    "{place} {what}",
    "an sshd that has too many at its door (MaxStartups), a firewall behind a port that answers, or a network that "
    "broke; it was tried four times",
    "check that an sshd listens there, and its MaxStartups when many connect at once",
    (
        "PLACE accepted the connection and closed it without an SSH banner",
        "PLACE turned us away: it said 'Exceeded MaxStartups'",
        "PLACE hung up in the middle of the login: Connection reset by peer",
    ),
)
ALGORITHMS = Trouble(
    "no-common-algorithm",
    ConnectError,
    "{place} offers only {names} as {kind}, which is not supported or not allowed here",
    "an old sshd, whose algorithms are too weak for today's clients",
    "bring its sshd up to date; or write `{keyword} +{name}` for it in ~/.ssh/config, which `transport: openssh` "
    "honours",
)
LOGIN_REFUSED = Trouble(
    "login-refused",
    AuthError,
    "{place} refused the login (keys offered: {keys})",
    "another user or key than `ssh` takes; a key named in the inventory is the only one offered, from its file or from "
    "the agent that holds it. Without one, what `ssh -G HOST` lists and the agent's keys are tried. \"it accepts "
    'password": only `transport: openssh` on a terminal can do that. An RSA key with an old server signs by '
    "ssh-rsa, which is SHA-1",
    "try `ssh -p {port} {user}@{address}`; name the user and the key in the inventory",
)
SECOND_FACTOR = Trouble(
    "second-factor",
    AuthError,
    "the host accepts the key {name}, and asks for {ways} as well",
    "the account logs in by two steps",
    "write `transport: openssh` in the inventory and run it on a terminal, where ssh can ask you; or ask who runs the "
    "host for a log-in without a second step",
)
AGENT = Trouble(
    "agent-does-not-sign",
    AuthError,
    "{place} accepts the key {name} in ssh-agent, which does not sign with it",
    "the agent waits for a confirmation, a touch or a passphrase, or hangs",
    "see whether the agent asks you for something; restart it, or name another as IdentityAgent in ~/.ssh/config",
)
IDENTITY = Trouble(
    "identity-file",
    AuthError,
    "{host}: identity_file {why}",
    "the key that the inventory names cannot be used: not there, not readable, encrypted, or a hardware key",
    "correct `identity_file`: the path of a private key on this machine",
)
SSH_CONFIG = Trouble(
    "ssh-config",
    ConnectError,
    "ssh rejects its configuration{of}: {why}",
    "the system's ssh reads the same files, and stops at the same line",
    "mend {config}",
)
SILENT = Trouble(
    "no-sign-of-life",
    UnreachableError,
    "{host}: no sign of life for {seconds:g} s",
    "the agent beats every five seconds: the host, its disks or the network on the way stand still",
    "check the network and the load of the host",
)
LOST = Trouble(
    "connection-lost",
    UnreachableError,
    "{host}: the connection broke{why}",
    "the network, a firewall that forgets idle connections, or the host. It is tried again for `--reconnect-for` (ten "
    "minutes); the run goes on meanwhile, and a minute longer",
    "`collect-remote attach RUN --host HOST` follows the run and brings its result, from any machine",
    ("lost the connection and could not get it back: ...",),
)


def unconnected(place: str, error: Exception, waited_s: float) -> ConnectError:
    """What to say of an `error` of the way there, which took so many seconds."""
    if isinstance(error, socket.gaierror):
        return NO_NAME(place=place)
    if isinstance(error, ConnectionRefusedError):
        return REFUSED(place=place)
    return NO_CONNECTION(place=place, seconds=waited_s, why=str(error) or type(error).__name__)
