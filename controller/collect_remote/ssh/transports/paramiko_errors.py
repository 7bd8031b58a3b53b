"""What sockets and paramiko raise while connecting, as one sentence and one thing to do."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from ...errors import AuthError, ConnectError
from .. import troubles
from ..identity import Identities
from ..proxy import Proxy
from ..ssh_config import Hop
from .handshake import HungUp, Overheard, no_banner, offered, turned_away

LOST = (paramiko.SSHException, OSError, EOFError)  # what paramiko raises when a connection is gone
BY_OPENSSH = "`transport: openssh` in the inventory uses the system's ssh instead"


@dataclass(slots=True)
class Seen:
    """How far one hop has come."""

    wire: Overheard | None = None
    transport: paramiko.Transport | None = None


@contextlib.contextmanager
def explained(hop: Hop, keys: Identities, proxy: Callable[[], Proxy | None]) -> Iterator[Seen]:
    """ConnectError in place of whatever goes wrong while `hop` is logged in to."""
    seen, started = Seen(), time.monotonic()
    try:
        yield seen
    except ConnectError:
        raise
    except LOST as error:
        # paramiko calls an end of the connection while it logs in a refusal; a server that refuses says so before.
        ended = seen.wire is not None and seen.wire.ended
        if isinstance(error, paramiko.AuthenticationException) and not ended:
            raise _refused(hop, keys, seen.transport) from error
        by = proxy()
        told = _told(hop, seen, error, time.monotonic() - started, by.last_words() if by is not None else "")
        raise told from told.__cause__ or error


def _told(hop: Hop, seen: Seen, error: Exception, waited_s: float, proxy_said: str) -> ConnectError:
    """The error in place of `error`; a cause of its own, where that is one that says more."""
    place = hop.place
    if isinstance(error, socket.gaierror | ConnectionRefusedError):
        return troubles.unconnected(place, error, waited_s)
    if isinstance(error, paramiko.ChannelException):
        return troubles.JUMP(place=place, why=error)
    if isinstance(error, IncompatiblePeer):
        return _incompatible(place, seen.wire, error)
    if hop.proxy_command and not (seen.wire and seen.wire.said):
        return troubles.PROXY(place=place, why=proxy_said or error, command=hop.proxy_line())
    if seen.transport is not None and seen.wire is not None:
        cause = no_banner(seen.wire.said, hop.connect_timeout, ended=seen.wire.ended)
        if cause is None and (seen.wire.ended or isinstance(error, EOFError | ConnectionError)):
            cause = HungUp(f"hung up in the middle of the login: {error or type(error).__name__}")
        if cause is not None:
            return turned_away(place, cause)
    return troubles.unconnected(place, error, waited_s)


def _refused(hop: Hop, keys: Identities, transport: paramiko.Transport | None) -> AuthError:
    """Why, as far as it can be known, and whether the system's ssh can do what paramiko cannot."""
    problems = [problem.why for problem in keys.unusable]
    remedies = [problem.remedy for problem in keys.unusable]
    if keys.with_rsa and transport is not None and not _knows_rsa_sha2(transport):
        problems.append("the RSA key signs by rsa-sha2, and this server may know nothing but ssh-rsa, which is SHA-1")
        remedies.append(
            f"use an ed25519 key; or PubkeyAcceptedAlgorithms +ssh-rsa in ~/.ssh/config, which {BY_OPENSSH} honours"
        )
    accepted = _accepted(transport, hop.user)
    if accepted and accepted != ["publickey"]:
        problems.append(f"it accepts {', '.join(accepted)}")
    if accepted and "publickey" not in accepted:
        remedies.append(f"{BY_OPENSSH}, which also knows Kerberos, hardware keys and, on a terminal, passwords")
    why = "".join(f"; {problem}" for problem in problems)
    error = troubles.LOGIN_REFUSED(
        place=hop.place, keys=keys.names + why, port=hop.port, user=hop.user, address=hop.address
    )
    error.remedy = "; ".join([*remedies, error.remedy])
    return error


def _knows_rsa_sha2(transport: paramiko.Transport) -> bool:
    extensions: dict[str, bytes] = getattr(transport, "server_extensions", {})
    return b"rsa-sha2-" in extensions.get("server-sig-algs", b"")


def _accepted(transport: paramiko.Transport | None, user: str) -> list[str]:
    """The ways to log in that the server names; empty when it has hung up."""
    if transport is None or not transport.is_active():
        return []
    try:
        transport.auth_none(user)
    except paramiko.BadAuthenticationType as error:
        return list(error.allowed_types)
    except LOST:
        pass
    return []


def _incompatible(place: str, wire: Overheard | None, error: Exception) -> ConnectError:
    """paramiko says of which kind nothing was in common; what the server would have, we have overheard."""
    kinds = {"kex algorithm": "kex", "host key": "host key", "ciphers": "cipher", "macs": "mac"}
    kind = next((kind for words, kind in kinds.items() if words in str(error)), "")
    names = offered(wire.said).get(kind, []) if wire else []
    keyword = {"kex": "KexAlgorithms", "host key": "HostKeyAlgorithms", "cipher": "Ciphers", "mac": "MACs"}.get(kind)
    if not names:
        return ConnectError(f"{place}: no common algorithm: {error}", BY_OPENSSH)
    return troubles.ALGORITHMS(
        place=place, names=", ".join(names), kind=f"{kind} algorithm", keyword=keyword, name=names[0]
    )
