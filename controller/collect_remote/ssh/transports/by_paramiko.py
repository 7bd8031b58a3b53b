"""A connection by paramiko, in this process: one transport a hop, each through a channel of the one before."""

from __future__ import annotations

import contextlib
import functools
import logging
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import paramiko

from ..doors import Ahead, door
from ..host_keys import Policy
from ..identity import identities
from ..proxy import Proxy
from ..ssh_config import Hop, dial
from . import MOST_ERRORS, Login, Lost, Step
from .handshake import FAST_CIPHERS, Overheard, patiently
from .outlet import Outlet
from .paramiko_errors import LOST, explained

MIB = 1024 * 1024
# Window by round-trip time in seconds, both measured: a larger one than needed costs the server more than it brings.
WINDOWS = ((0.010, 4 * MIB), (0.040, 8 * MIB), (float("inf"), 16 * MIB))
REKEY_BYTES = 2**35  # paramiko can dead-lock while it re-keys (paramiko #822); OpenSSH's own limit for AES is 2**36
READ_BYTES, WRITE_BYTES = 8 * MIB, 256 * 1024
TURN_S = 0.1  # after which whoever waits for a file hears how far it is
HANDSHAKE_S = 30.0
AUTH_TIMEOUT_S = 60.0
CHANNEL_TIMEOUT_S = 30.0
REFUSED_S = 2.0
LOOK_S = 1.0  # from one look of an idle connection at its clock to the next; paramiko's own is ten a second
# Else Python prints its log, tracebacks included, on the screen of whoever has set up no logging.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


def connect(hops: Sequence[Hop], ahead: Future[Ahead] | None) -> ParamikoConnection:
    """Connect through every jump host. ConnectError with the cause; nothing stays open then.

    `ahead`: a connection to the first of them that is being made already.
    """
    connection = ParamikoConnection(ahead)
    try:
        for hop in hops:
            patiently(functools.partial(connection.add, hop))
    except BaseException:
        connection.close()
        raise
    return connection


class ParamikoConnection:
    """Transports of all hops, the last one to the host itself."""

    pour = None  # every byte is decrypted here

    def __init__(self, ahead: Future[Ahead] | None) -> None:
        self.login = Login("paramiko")
        self._ahead = ahead
        self._transports: list[paramiko.Transport] = []
        self._proxy: Proxy | None = None
        self._round_trips: list[float] = []

    @property
    def is_open(self) -> bool:
        return bool(self._transports) and self._transports[-1].is_active()

    def start(self, command: str) -> ParamikoChannel:
        if not self._transports:
            raise Lost("the connection is closed")  # while a shell was to be made ready
        try:
            channel = self._session(self._transports[-1])
            channel.settimeout(CHANNEL_TIMEOUT_S)
            return ParamikoChannel(channel, command)
        except LOST as error:
            raise Lost(str(error) or type(error).__name__) from error

    def _session(self, transport: paramiko.Transport) -> paramiko.Channel:
        """A server that allows one at a time takes a moment to see that the last is over."""
        until = time.monotonic() + REFUSED_S
        while True:
            started = time.monotonic()
            try:
                channel = transport.open_session(window_size=self._window(), timeout=CHANNEL_TIMEOUT_S)
            except paramiko.ChannelException:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
            else:
                self._round_trips.append(time.monotonic() - started)
                self.login.link_bytes_s = self._window() / min(self._round_trips)
                return channel

    def close(self) -> None:
        for transport in reversed(self._transports):
            _end(transport)
        self._transports.clear()
        self._end_proxy()
        if self._ahead is not None:
            self._ahead.add_done_callback(_hang_up)

    def _window(self) -> int:
        """Measured without a round trip of its own: opening a channel takes one, and so did connecting."""
        measured = min(self._round_trips, default=sum(step.connect_s for step in self.login.steps))
        return next(window for limit, window in WINDOWS if measured < limit)

    def add(self, hop: Hop) -> None:
        """Log in to the next hop. ConnectError with the cause."""
        policy = Policy(hop)
        with (
            self._at_the_door(hop) as dialled,
            identities(hop) as keys,
            contextlib.ExitStack() as on_failure,
            explained(hop, keys, lambda: self._proxy) as seen,
        ):
            began = time.monotonic()
            seen.wire = Overheard(self._socket(hop, dialled))
            on_failure.callback(seen.wire.close)
            connected = time.monotonic()
            transport = seen.transport = _transport(hop, policy.kinds, seen.wire)
            on_failure.callback(_end, transport)
            transport.start_client(timeout=hop.connect_timeout + HANDSHAKE_S)
            shown = transport.get_remote_server_key()
            policy.judge(shown.get_name(), shown.asbytes())
            agreed = time.monotonic()
            keys.authenticate(transport)
            on_failure.pop_all()
        transport.set_keepalive(round(hop.alive_interval))
        self._transports.append(transport)
        self._told(Step(hop.name, connected - began, agreed - connected, time.monotonic() - agreed))

    def _told(self, step: Step) -> None:
        login = self.login
        transport: Any = self._transports[-1]
        login.steps += (step,)
        login.total_s += step.connect_s + step.handshake_s + step.authenticate_s
        login.user = transport.get_username()
        login.server = transport.remote_version.partition("-")[2].partition("-")[2]
        login.cipher = transport.remote_cipher

    @contextlib.contextmanager
    def _at_the_door(self, hop: Hop) -> Iterator[Future[Ahead] | None]:
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            with door(hop):
                yield None
        else:
            try:
                yield ahead
            except BaseException:
                ahead.add_done_callback(_hang_up)  # perhaps nobody has come to it
                raise
            ahead.add_done_callback(_leave)

    def _socket(self, hop: Hop, ahead: Future[Ahead] | None) -> Any:
        if self._transports:
            place = (hop.address, hop.port)
            return self._transports[-1].open_channel(
                "direct-tcpip", place, ("127.0.0.1", 0), timeout=hop.connect_timeout
            )
        if hop.proxy_command:
            self._end_proxy()  # of the try before
            self._proxy = Proxy(hop.proxy_line())
            return self._proxy.socket
        return ahead.result().socket if ahead else dial(hop)

    def _end_proxy(self) -> None:
        if self._proxy is not None:
            self._proxy.close()
            self._proxy = None


class ParamikoChannel:
    """One exec channel."""

    def __init__(self, channel: paramiko.Channel, command: str) -> None:
        self._channel = channel
        self._outlet = channel.in_buffer = Outlet()  # nothing has come yet
        self._errors = bytearray()
        channel.exec_command(command)

    def read(self, timeout: float) -> bytes:
        return self._received(READ_BYTES, timeout)

    def into(self, file: int, length: int, timeout: float) -> int:
        self._outlet.aim(file, length)
        try:
            until = time.monotonic() + TURN_S
            while self._received(length, timeout) and not self._outlet.is_full and time.monotonic() < until:
                pass
        finally:
            moved = self._outlet.let_go()
        return moved

    def _received(self, most: int, timeout: float) -> bytes:
        self._channel.settimeout(timeout)
        try:
            data = self._channel.recv(most)
            self._keep_errors()
        except TimeoutError:
            raise
        except LOST as error:  # reading also writes: it tells the peer that there is room again
            raise Lost(str(error) or type(error).__name__) from error
        return data

    def errors(self) -> bytes:
        with contextlib.suppress(*LOST):
            self._keep_errors()
        found, self._errors = bytes(self._errors), bytearray()
        return found

    def write(self, data: bytes, timeout: float) -> None:
        self._channel.settimeout(timeout)
        try:
            for start in range(0, len(data), WRITE_BYTES):  # sendall() copies all that is left for every packet
                self._channel.sendall(data[start : start + WRITE_BYTES])
        except TimeoutError:
            raise
        except LOST as error:
            raise Lost(str(error) or type(error).__name__) from error

    def _keep_errors(self) -> None:
        """Take them out of the window, which they share with the output."""
        while self._channel.recv_stderr_ready():
            more = self._channel.recv_stderr(READ_BYTES)
            self._errors += more[: max(0, MOST_ERRORS - len(self._errors))]

    def status(self, timeout: float) -> int:
        return self._channel.recv_exit_status() if self._channel.status_event.wait(timeout) else -1

    def close(self) -> None:
        with contextlib.suppress(*LOST):  # closing says so to a peer that may be gone
            self._channel.close()


def _transport(hop: Hop, known_kinds: set[str], wire: Overheard) -> paramiko.Transport:
    """`known_kinds`: types of the keys that the server is known by, which it is asked for first."""
    transport = paramiko.Transport(
        wire,  # type: ignore[arg-type] # whatever has a socket's methods
        default_window_size=WINDOWS[0][1],
        disabled_algorithms=_disabled(hop),
    )
    wire.settimeout(LOOK_S)
    transport.banner_timeout = hop.connect_timeout
    packetizer: Any = transport.packetizer
    packetizer.start_handshake = lambda _: None  # a thread for a time-out that `start_client` has as well
    transport.auth_timeout = AUTH_TIMEOUT_S
    transport.channel_timeout = CHANNEL_TIMEOUT_S
    packetizer.REKEY_BYTES = REKEY_BYTES
    security = transport.get_security_options()
    security.ciphers = sorted(security.ciphers, key=lambda cipher: cipher not in FAST_CIPHERS)
    # A key of type ssh-rsa signs as rsa-sha2-512 or rsa-sha2-256.
    security.key_types = sorted(
        security.key_types, key=lambda kind: ("ssh-rsa" if kind.startswith("rsa-sha2-") else kind) not in known_kinds
    )
    return transport


def _end(transport: paramiko.Transport) -> None:
    """Close it, and wait for its thread, which would else be a moment longer in its last read."""
    with contextlib.suppress(*LOST):
        transport.sock.shutdown(socket.SHUT_RDWR)
    transport.close()
    if transport.is_alive():
        transport.join(2.0)


def _hang_up(ahead: Future[Ahead]) -> None:
    if not ahead.exception():
        ahead.result().hang_up()


def _leave(ahead: Future[Ahead]) -> None:
    if not ahead.exception():
        ahead.result().door.release()


def _disabled(hop: Hop) -> dict[str, list[str]]:
    """What paramiko knows and the user's ssh_config leaves out."""
    known: Any = paramiko.Transport
    every = {
        "kex": known._preferred_kex,
        "ciphers": known._preferred_ciphers,
        "keys": known._preferred_keys,
        "pubkeys": known._preferred_pubkeys,
    }
    return {kind: [name for name in every[kind] if name not in allowed] for kind, allowed in hop.algorithms.items()}
