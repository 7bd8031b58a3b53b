"""One SSH connection to a host: run a script, or stream with it. Strict host keys; a time-out on every wait.

Everything is a bash script on the standard input of one exec channel (see `shell`): nothing has to survive the quoting
rules of the login shell, and a banner changes nothing. Standard output and error come back as one stream; what we look
for in it is led by a marker (see `collect_agent.events`), everything else is noise and kept for error messages.
"""

from __future__ import annotations

import contextlib
import functools
import math
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import paramiko

from . import shell
from .errors import AuthError, CollectError, ConnectError, TransferError, UnreachableError, one_line
from .host_keys import Policy
from .identity import Identities, identities
from .inventory import Host
from .proxy import Proxy
from .ssh_config import Hop, route

WINDOW = 4 * 1024 * 1024  # bytes; larger ones cost the server more than they bring on a near link
REKEY_BYTES = 2**35  # paramiko can dead-lock while it re-keys (paramiko #822); OpenSSH's own limit for AES is 2**36
KEEPALIVE_S = 15
LONGEST_LINE = 8 * 1024 * 1024  # bytes; ours are shorter by far
DEAD_AFTER_S = 45
FURTHER_S = 60.0  # for a container's engine, on a busy host
_LOST = (paramiko.SSHException, OSError, EOFError)  # what paramiko raises when a connection is gone


class Stream:
    """One running script: its output line by line or byte by byte, its input, its exit status.

    `greeting` is the end of what the login printed before the script began, `noise` what readers leave aside later.
    """

    def __init__(self, channel: paramiko.Channel, where: str, login: str) -> None:
        self._channel, self._where, self._login = channel, where, login
        self._buffer = bytearray()
        self._begun = False
        self._further: list[Callable[[Sequence[str], int | None], CollectError]] = []
        self.greeting: deque[str] = deque(maxlen=20)
        self.noise: deque[str] = deque(maxlen=20)

    def lines(self, timeout: float, within: float | None = None) -> Iterator[bytes]:
        """Lines without their ends, until the script ends; one that never ends is dropped.

        UnreachableError after `timeout` seconds of silence, or when it is not over `within` seconds; what `not_begun`
        of `shell` gives when the script does not begin.
        """
        self._begin()
        self._begin_further()
        yield from self._lines(timeout, within)

    def expect(self, not_begun: Callable[[Sequence[str], int | None], CollectError]) -> None:
        """The script hands its input on to another bash, in a container.

        `not_begun` gives the error when that one does not begin, from what was said instead and the exit status (None:
        it goes on).
        """
        self._further.append(not_begun)

    def _begin_further(self) -> None:
        """Read up to where the script begins that the first one has handed on to."""
        while self._further:
            said: deque[str] = deque(maxlen=20)
            started = time.monotonic()
            try:
                for line in self._lines(FURTHER_S, FURTHER_S):
                    said.append(one_line(line[:4096].decode("utf-8", "replace")))
                    if said[-1] == shell.BEGUN:
                        self._further.pop()
                        break
                else:
                    if (status := self.status()) == -1:
                        raise UnreachableError(f"{self._where}: the connection broke")
                    raise self._further[-1](said, status)
            except UnreachableError as error:
                if time.monotonic() - started < FURTHER_S - 0.5:
                    raise
                raise self._further[-1](said, None) from error

    def _begin(self) -> None:
        """Read up to where the script begins, once."""
        if self._begun:
            return
        started = time.monotonic()
        try:
            for line in self._lines(shell.BEGIN_S, shell.BEGIN_S):
                said = one_line(line[:4096].decode("utf-8", "replace"))
                if said == shell.BEGUN:
                    self._begun = True
                    return
                self.greeting.append(said)
        except UnreachableError as error:
            if time.monotonic() - started < shell.BEGIN_S - 0.5:
                raise
            question = self._buffer.rpartition(b"\n")[2]  # has no line end
            self.greeting.append(one_line(question[-4096:].decode("utf-8", "replace")))
            raise shell.not_begun(self._login, self.greeting, None) from error
        if (status := self.status()) == -1:
            raise UnreachableError(f"{self._where}: the connection broke")
        raise shell.not_begun(self._login, self.greeting, status)

    def _lines(self, timeout: float, within: float | None) -> Iterator[bytes]:
        until = math.inf if within is None else time.monotonic() + within
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise UnreachableError(f"{self._where}: not over after {within:g} s", "check the load of the host")
            end = self._buffer.find(b"\n")
            if end >= 0:
                line = bytes(self._buffer[:end]).removesuffix(b"\r")
                del self._buffer[: end + 1]
                yield line
                continue
            if len(self._buffer) > LONGEST_LINE:
                self._buffer.clear()
            if not self._fill(min(timeout, left)):
                if self._buffer:
                    yield bytes(self._buffer)
                return

    def blocks(self, length: int, timeout: float) -> Iterator[bytes]:
        """Exactly `length` bytes, in blocks as they come. UnreachableError when they end early or stall."""
        self._begin()
        self._begin_further()
        while length:
            if not self._buffer and not self._fill(timeout):
                early = f"{self._where}: the stream ended {length} bytes early"
                if self.status() != -1:  # by itself, on a sound connection: asking again would give the same
                    raise TransferError(early, "look at the run's directory on the host")
                raise UnreachableError(early)
            block = bytes(self._buffer[:length])
            del self._buffer[: len(block)]
            length -= len(block)
            yield block

    def send(self, data: bytes) -> None:
        try:
            self._channel.sendall(data)
        except _LOST as error:
            raise UnreachableError(f"{self._where}: the connection broke: {error or type(error).__name__}") from error

    def status(self) -> int:
        """Exit status; -1 when the connection took it along, or it does not come."""
        return self._channel.recv_exit_status() if self._channel.status_event.wait(30.0) else -1

    def close(self) -> None:
        with contextlib.suppress(*_LOST):  # closing says so to a peer that may be gone
            self._channel.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self, timeout: float) -> bool:
        self._channel.settimeout(timeout)
        try:
            data = self._channel.recv(1 << 20)
        except TimeoutError as error:
            raise UnreachableError(
                f"{self._where}: no sign of life for {timeout:g} s",
                "check the network and the load of the host",
            ) from error
        except _LOST as error:  # reading also writes: it tells the peer that there is room again
            raise UnreachableError(f"{self._where}: the connection broke: {error or type(error).__name__}") from error
        self._buffer += data
        return bool(data)


class Remote:
    """A connection that can be opened again. Use as a context manager."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._clients: list[paramiko.SSHClient] = []
        self._proxy: Proxy | None = None

    def __enter__(self) -> Remote:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect, through every jump host. ConnectError with the cause; nothing stays open then."""
        try:
            for hop in route(self.host):
                self._clients.append(self._connect(hop))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for client in reversed(self._clients):
            client.close()
        self._clients.clear()
        if self._proxy is not None:
            self._proxy.close()
            self._proxy = None

    @property
    def is_open(self) -> bool:
        transport = self._clients[-1].get_transport() if self._clients else None
        return transport is not None and transport.is_active()

    def reopen(self, patience_s: float) -> None:
        """Connect again after a loss, with growing pauses; the last error when `patience_s` seconds have passed."""
        until, pause = time.monotonic() + patience_s, 0.5
        while True:
            self.close()
            try:
                self.open()
            except UnreachableError:
                if time.monotonic() + pause > until:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 15.0)
            else:
                return

    def stream(self, script: str) -> Stream:
        """Start `script` (bash) and leave its input open. UnreachableError when no channel can be had."""
        where, wrapped = self.host.name, shell.wrap(script)
        transport = self._clients[-1].get_transport() if self._clients else None
        if transport is None:
            raise UnreachableError(f"{where}: not connected")
        try:
            channel = transport.open_session(window_size=WINDOW, timeout=30)
            channel.set_combine_stderr(True)
            channel.exec_command(wrapped.command)
        except _LOST as error:
            raise UnreachableError(f"{where}: cannot start a command: {error}", "try again") from error
        stream = Stream(channel, where, f"{transport.get_username()}@{where}")
        stream.send(wrapped.stdin)
        return stream

    def _connect(self, hop: Hop) -> paramiko.SSHClient:
        client = paramiko.SSHClient()
        policy = Policy(hop)
        client.set_missing_host_key_policy(policy)
        with identities(hop) as keys, self._explained(hop, keys), contextlib.ExitStack() as on_failure:
            sock = self._socket(hop)
            on_failure.callback(sock.close)
            on_failure.callback(client.close)
            client.connect(
                hop.address,
                hop.port,
                username=hop.user,
                auth_strategy=keys,  # type: ignore[arg-type] # nothing but its authenticate() is called
                sock=sock,
                timeout=hop.connect_timeout,
                banner_timeout=30,
                auth_timeout=30,
                channel_timeout=30,
                transport_factory=functools.partial(_transport, policy.kinds),
            )
            on_failure.pop_all()
        transport = client.get_transport()
        assert transport is not None  # noqa: S101 - connect() returned
        transport.set_keepalive(KEEPALIVE_S)
        return client

    def _socket(self, hop: Hop) -> Any:
        if self._clients:
            inner = self._clients[-1].get_transport()
            assert inner is not None  # noqa: S101 - the hop before is connected
            return inner.open_channel(
                "direct-tcpip", (hop.address, hop.port), ("127.0.0.1", 0), timeout=hop.connect_timeout
            )
        if hop.proxy_command:
            self._proxy = Proxy(hop.proxy_command)
            return self._proxy.socket
        sock = socket.create_connection((hop.address, hop.port), timeout=hop.connect_timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # paramiko's keep-alive asks for no reply: only the kernel notices a peer that is gone (paramiko #918).
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER_S * 1000)
        return sock

    @contextlib.contextmanager
    def _explained(self, hop: Hop, keys: Identities) -> Iterator[None]:
        """Turn what sockets and paramiko raise while connecting into one sentence and one thing to do."""
        place, started = f"{hop.name} ({hop.user}@{hop.address}:{hop.port})", time.monotonic()
        try:
            yield
        except ConnectError:
            raise
        except paramiko.AuthenticationException as error:
            problems = "".join(f"; {problem.why}" for problem in keys.unusable)
            remedies = [problem.remedy for problem in keys.unusable]
            raise AuthError(
                f"{place} refused the login (keys offered: {keys.names}{problems})",
                "; ".join([*remedies, f"try `ssh -p {hop.port} {hop.user}@{hop.address}`"])
                + "; name the user and the key in the inventory",
            ) from error
        except socket.gaierror as error:
            raise UnreachableError(
                f"{place}: the name does not resolve",
                "set `address` in the inventory, or HostName in ~/.ssh/config",
            ) from error
        except ConnectionRefusedError as error:
            raise UnreachableError(
                f"{place}: connection refused", "check the port, and that sshd runs there"
            ) from error
        except paramiko.ChannelException as error:
            raise UnreachableError(
                f"{place}: the jump host cannot reach it: {error}", "check `jump` and the port"
            ) from error
        except _LOST as error:
            if self._proxy is not None and not self._clients:
                raise UnreachableError(
                    f"{place}: its ProxyCommand brings no connection: {self._proxy.last_words() or error}",
                    f"try it: {hop.proxy_command}",
                ) from error
            if "banner" in str(error):
                raise UnreachableError(
                    f"{place} accepted the connection and sent no SSH banner",
                    "check that an sshd listens there, and its MaxStartups when many connect at once",
                ) from error
            waited = time.monotonic() - started
            raise UnreachableError(
                f"{place}: no connection after {waited:.0f} s: {error or type(error).__name__}",
                "check that the host is up and that a firewall lets you through",
            ) from error


def _transport(known_kinds: set[str], sock: Any, **options: Any) -> paramiko.Transport:
    """`known_kinds`: types of the keys that the server is known by, which it is asked for first."""
    transport = paramiko.Transport(sock, default_window_size=WINDOW, **options)
    transport.packetizer.REKEY_BYTES = REKEY_BYTES
    security = transport.get_security_options()
    fast = [cipher for cipher in ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com") if cipher in security.ciphers]
    security.ciphers = (*fast, *(cipher for cipher in security.ciphers if cipher not in fast))
    # A key of type ssh-rsa signs as rsa-sha2-512 or rsa-sha2-256.
    security.key_types = sorted(
        security.key_types, key=lambda kind: ("ssh-rsa" if kind.startswith("rsa-sha2-") else kind) not in known_kinds
    )
    return transport
