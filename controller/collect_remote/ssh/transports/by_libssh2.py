"""A connection by libssh2 (ssh2-python), in this process: for a question or two to a host that is plainly there.

It is C, and takes a third of the processor time of paramiko. It goes no way but the direct one, and offers one key, the
first that is to be offered, from its file. Where that is not enough, or goes wrong in a way that it does not explain,
`connect` gives None: paramiko can more, and tells what is wrong.
"""

from __future__ import annotations

import contextlib
import functools
import re
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ssh2.exceptions import SSH2Error
from ssh2.session import (
    LIBSSH2_METHOD_CRYPT_CS,
    LIBSSH2_METHOD_CRYPT_SC,
    LIBSSH2_METHOD_HOSTKEY,
    LIBSSH2_METHOD_KEX,
    LIBSSH2_METHOD_MAC_CS,
    LIBSSH2_METHOD_MAC_SC,
)

from .. import troubles
from ..doors import door
from ..host_keys import Policy
from ..public_keys import kind, public_half
from ..ssh_config import Hop, dial
from ..stamp import Stamp, stamp
from . import Login, Step
from .handshake import FAST_CIPHERS, patiently, strange, turned_away
from .libssh2_session import Libssh2Connection, Wire

HANDSHAKE_S = 30.0
AUTH_TIMEOUT_S = 60.0
# It knows older ones too, which whoever needs them gets from another transport.
CIPHERS = ",".join([*FAST_CIPHERS, "aes128-ctr", "aes192-ctr", "aes256-ctr"])
MACS = "hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha2-256,hmac-sha2-512"
EXCHANGES = (
    "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,ecdh-sha2-nistp521,"
    "diffie-hellman-group-exchange-sha256,diffie-hellman-group16-sha512,diffie-hellman-group14-sha256"
)
METHODS = (
    (LIBSSH2_METHOD_KEX, EXCHANGES),
    (LIBSSH2_METHOD_CRYPT_CS, CIPHERS),
    (LIBSSH2_METHOD_CRYPT_SC, CIPHERS),
    (LIBSSH2_METHOD_MAC_CS, MACS),
    (LIBSSH2_METHOD_MAC_SC, MACS),
)
HOST_KEYS = {  # of a kind of key, how it signs
    "ssh-ed25519": ("ssh-ed25519",),
    "ecdsa-sha2-nistp256": ("ecdsa-sha2-nistp256",),
    "ecdsa-sha2-nistp384": ("ecdsa-sha2-nistp384",),
    "ecdsa-sha2-nistp521": ("ecdsa-sha2-nistp521",),
    "ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256"),
}
# An RSA key makes libssh2 1.11.1 copy what the server says of signatures into a buffer of another length (its #1885).
USER_KEYS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
# A private key without a passphrase, in OpenSSH's own format (PROTOCOL.key): its cipher is "none".
_PLAIN_KEY = re.compile(rb"\s*-----BEGIN OPENSSH PRIVATE KEY-----\s+b3BlbnNzaC1rZXktdjEAAAAABG5vbmU")


def connect(hops: Sequence[Hop]) -> Libssh2Connection | None:
    """Connect, or None where it takes paramiko. ConnectError with the cause, where that is known."""
    hop = hops[-1]
    key = None if len(hops) > 1 else plain_key(hop)
    return None if key is None else patiently(functools.partial(_log_in, hop, key))


def plain_key(hop: Hop) -> bytes | None:
    """The contents of the file of the key that is to be offered first; None where another transport has to log in."""
    if hop.proxy_command or hop.algorithms or hop.certificates or not hop.identity_files:
        return None
    path = hop.identity_files[0]
    certificate = path.with_name(path.name + "-cert.pub")
    return None if stamp(certificate) else _contents(path, stamp(path))


@functools.lru_cache(maxsize=64)
def _contents(path: Path, _stamp: Stamp | None) -> bytes | None:
    """Once, as long as it does not change: many hosts have the same."""
    if kind(public_half(path) or b"") not in USER_KEYS:
        return None
    try:
        contents = path.read_bytes()
    except OSError:
        return None
    return contents if _PLAIN_KEY.match(contents) else None


def _log_in(hop: Hop, key: bytes) -> Libssh2Connection | None:
    policy, began = Policy(hop), time.monotonic()
    with door(hop), contextlib.ExitStack() as on_failure:
        try:
            sock = dial(hop)
        except OSError as error:
            raise troubles.unconnected(hop.place, error, time.monotonic() - began) from error
        wire = Wire(sock)
        on_failure.callback(wire.close)
        if not _is_greeted(sock, hop):
            return None
        connected = time.monotonic()
        try:
            wire.ask(lambda session: _prefer(session, policy.kinds))
            wire.done(lambda session: session.handshake(sock), within=hop.connect_timeout + HANDSHAKE_S)
            shown: bytes = wire.ask(lambda session: session.hostkey())[0]
            policy.judge(kind(shown), shown)
            agreed = time.monotonic()
            wire.done(lambda session: session.userauth_publickey_frommemory(hop.user, key), within=AUTH_TIMEOUT_S)
        except SSH2Error:
            return None
        except TimeoutError as error:
            raise troubles.unconnected(hop.place, error, time.monotonic() - began) from error
        on_failure.pop_all()
    done = time.monotonic()
    steps = (Step(hop.name, connected - began, agreed - connected, done - agreed),)
    cipher = wire.ask(lambda session: session.methods(LIBSSH2_METHOD_CRYPT_CS))
    return Libssh2Connection(wire, Login("libssh2", hop.user, done - began, steps, cipher=cipher))


def _is_greeted(sock: socket.socket, hop: Hop) -> bool:
    """Whether the first words are those of an SSH server, which stay there for libssh2. ConnectError when none come."""
    sock.settimeout(hop.connect_timeout)
    try:
        said = sock.recv(4, socket.MSG_PEEK)
    except TimeoutError:
        raise turned_away(hop.place, strange("", hop.connect_timeout, ended=False)) from None
    except OSError:
        said = b""
    sock.setblocking(False)
    if not said:
        raise turned_away(hop.place, strange("", 0.0, ended=True))
    return said == b"SSH-"


def _prefer(session: Any, known_kinds: set[str]) -> None:
    """`known_kinds`: types of the keys that the server is known by, which it is asked for first."""
    kinds = sorted(HOST_KEYS, key=lambda name: name not in known_kinds)
    session.method_pref(LIBSSH2_METHOD_HOSTKEY, ",".join(name for known in kinds for name in HOST_KEYS[known]))
    for method, names in METHODS:
        session.method_pref(method, names)
