"""A connection by libssh2 (ssh2-python), in this process: for a question or two to a host that is plainly there.

It is C, and takes a third of the processor time of paramiko. It goes no way but the direct one, and offers one key, the
first that is to be offered, from its file. Where that is not enough, or goes wrong in a way that it does not explain,
`connect` gives None: paramiko can more, and tells what is wrong.

One thread at a time may use a connection. That a signal has ended a command ssh2-python does not tell: its status is 0.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import select
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ssh2.error_codes import LIBSSH2_ERROR_EAGAIN
from ssh2.exceptions import SSH2Error
from ssh2.session import (
    LIBSSH2_METHOD_CRYPT_CS,
    LIBSSH2_METHOD_CRYPT_SC,
    LIBSSH2_METHOD_HOSTKEY,
    LIBSSH2_METHOD_KEX,
    LIBSSH2_METHOD_MAC_CS,
    LIBSSH2_METHOD_MAC_SC,
    LIBSSH2_SESSION_BLOCK_OUTBOUND,
    Session,
)

from .. import troubles
from ..doors import door
from ..host_keys import Policy
from ..public_keys import kind, public_half
from ..ssh_config import Hop, dial
from . import MOST_ERRORS, Login, Lost, Step
from .handshake import FAST_CIPHERS, acknowledge, patiently, strange, turned_away

T = TypeVar("T")
READ_BYTES = 64 * 1024
HANDSHAKE_S = 30.0
AUTH_TIMEOUT_S = 60.0
CHANNEL_TIMEOUT_S = 30.0
LOOK_S = 1.0  # after which errors are made room for that may have filled the window
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
    return _contents(hop.identity_files[0])


@functools.lru_cache(maxsize=64)
def _contents(path: Path) -> bytes | None:
    """Once: many hosts have the same. Where it is another by now and is refused, paramiko looks again."""
    if path.with_name(path.name + "-cert.pub").exists() or kind(public_half(path) or b"") not in USER_KEYS:
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
        wire = _Wire(sock)
        on_failure.callback(wire.close)
        if not _is_greeted(sock, hop):
            return None
        connected = time.monotonic()
        try:
            wire.prefer(policy.kinds)
            wire.done(lambda: wire.session.handshake(sock), within=hop.connect_timeout + HANDSHAKE_S)
            shown: bytes = wire.session.hostkey()[0]
            policy.judge(kind(shown), shown)
            agreed = time.monotonic()
            wire.done(lambda: wire.session.userauth_publickey_frommemory(hop.user, key), within=AUTH_TIMEOUT_S)
        except SSH2Error:
            return None
        except TimeoutError as error:
            raise troubles.unconnected(hop.place, error, time.monotonic() - began) from error
        on_failure.pop_all()
    done = time.monotonic()
    steps = (Step(hop.name, connected - began, agreed - connected, done - agreed),)
    cipher = wire.session.methods(LIBSSH2_METHOD_CRYPT_CS)
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


class _Wire:
    """A socket and the session over it, which never waits by itself."""

    def __init__(self, sock: socket.socket) -> None:
        self.session: Any = Session()
        self.session.set_blocking(False)
        self._sock = sock
        self._poll = select.poll()
        self._channels: list[Libssh2Channel] = []

    def prefer(self, known_kinds: set[str]) -> None:
        """`known_kinds`: types of the keys that the server is known by, which it is asked for first."""
        kinds = sorted(HOST_KEYS, key=lambda name: name not in known_kinds)
        self.session.method_pref(LIBSSH2_METHOD_HOSTKEY, ",".join(name for known in kinds for name in HOST_KEYS[known]))
        for method, names in METHODS:
            self.session.method_pref(method, names)

    def done(self, call: Callable[[], T], within: float) -> T:
        """What `call` gives when it has come to its end. TimeoutError, SSH2Error."""
        until = time.monotonic() + within
        while (found := call()) == LIBSSH2_ERROR_EAGAIN:
            if not self.is_ready(until):
                raise TimeoutError("timed out")
        return found

    def is_ready(self, until: float) -> bool:
        """Wait for what the session waits for, up to a time of the monotonic clock."""
        out = self.session.block_directions() & LIBSSH2_SESSION_BLOCK_OUTBOUND
        self._poll.register(self._sock, select.POLLIN | (select.POLLOUT if out else 0))
        return bool(self._poll.poll(max(0.0, until - time.monotonic()) * 1000))

    @property
    def is_open(self) -> bool:
        if self.session is None:
            return False
        try:
            return self._sock.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def acknowledge(self) -> None:
        """What the login has brought, before a channel is opened: see `handshake.Overheard`."""
        if hasattr(socket, "TCP_QUICKACK"):
            acknowledge(self._sock)

    def belongs(self, channel: Libssh2Channel) -> None:
        self._channels.append(channel)

    def close(self) -> None:
        """The session ends before its socket: it writes to a number, which would soon be another socket's.

        It ends with the last reference, so that there is one here and one a channel, and none in what `done` calls.
        """
        if self.session is None:
            return
        with contextlib.suppress(SSH2Error):
            self.session.disconnect()
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # what is left of it waits for no answer
        for channel in self._channels:
            channel.let_go()
        self.session = None
        self._sock.close()


class Libssh2Connection:
    """A session with the host."""

    pour = None  # every byte is decrypted here

    def __init__(self, wire: _Wire, login: Login) -> None:
        self.login = login
        self._wire = wire

    @property
    def is_open(self) -> bool:
        return self._wire.is_open

    def start(self, command: str) -> Libssh2Channel:
        if self._wire.session is None:
            raise Lost("the connection is closed")
        self._wire.acknowledge()
        try:
            return Libssh2Channel(self._wire, command)
        except (SSH2Error, TimeoutError) as error:
            raise _lost(error) from error

    def close(self) -> None:
        self._wire.close()


class Libssh2Channel:
    """One exec channel."""

    def __init__(self, wire: _Wire, command: str) -> None:
        self._wire = wire
        self._channel: Any = wire.done(lambda: wire.session.open_session(), within=CHANNEL_TIMEOUT_S)
        self._errors = bytearray()
        wire.belongs(self)
        wire.done(lambda: self._channel.execute(command), within=CHANNEL_TIMEOUT_S)

    def read(self, timeout: float) -> bytes:
        return self._received(READ_BYTES, timeout)

    def into(self, file: int, length: int, timeout: float) -> int:
        data = self._received(min(length, READ_BYTES), timeout)
        written = 0
        while written < len(data):
            written += os.write(file, data[written:])
        return written

    def _received(self, most: int, timeout: float) -> bytes:
        until = time.monotonic() + timeout
        try:
            while self._channel is not None:
                self._keep_errors()  # and not between reading and waiting: whichever stream is read takes all in
                count, data = self._channel.read(most)
                if count != LIBSSH2_ERROR_EAGAIN:
                    return bytes(data)
                if not self._wire.is_ready(min(until, time.monotonic() + LOOK_S)) and time.monotonic() >= until:
                    raise TimeoutError("timed out")
        except SSH2Error as error:
            raise _lost(error) from error
        raise Lost("the connection is closed")

    def errors(self) -> bytes:
        with contextlib.suppress(SSH2Error):
            self._keep_errors()
        found, self._errors = bytes(self._errors), bytearray()
        return found

    def _keep_errors(self) -> None:
        """Take them out of the window, which they share with the output."""
        while self._channel is not None:
            count, more = self._channel.read_stderr(READ_BYTES)
            if count <= 0:
                return
            self._errors += more[: max(0, MOST_ERRORS - len(self._errors))]

    def write(self, data: bytes, timeout: float) -> None:
        until = time.monotonic() + timeout
        try:
            while data:
                if self._channel is None:
                    raise Lost("the connection is closed")
                count, sent = self._channel.write(data)
                data = data[sent:]
                if count == LIBSSH2_ERROR_EAGAIN and not self._wire.is_ready(until):
                    raise TimeoutError("timed out")
        except SSH2Error as error:
            raise _lost(error) from error

    def status(self, timeout: float) -> int:
        if self._channel is None:
            return -1
        try:
            self._wire.done(lambda: self._channel.wait_closed(), within=timeout)
        except (SSH2Error, TimeoutError):
            return -1
        return int(self._channel.get_exit_status())

    def close(self) -> None:
        if self._channel is not None:
            with contextlib.suppress(SSH2Error):
                self._channel.close()  # which the host hears; its answer nobody waits for

    def let_go(self) -> None:
        self._channel = None


def _lost(error: Exception) -> Lost:
    return Lost(str(error) or type(error).__name__)
