"""How to reach a host: what the inventory says, over what `ssh` itself would do with the same name."""

from __future__ import annotations

import functools
import getpass
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import ConnectError
from ..inventory import Host
from .ssh_settings import restrictions, settings_of

SYSTEM_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
MOST_HOPS = 8
# Where ssh_config says nothing: ssh's own default is to send no sign of life at all.
ALIVE_INTERVAL_S, ALIVE_COUNT = 15.0, 3
CONNECT_TIMEOUT_S = 20.0
LONGEST_MS = 2**31 - 1  # that the kernel takes


@dataclass(frozen=True, slots=True)
class Hop:
    """One SSH connection to make, everything resolved. Times are seconds.

    `identity_named`: the inventory names its key. `new_keys`: the file that takes the key of a new host. `agent` is the
    socket of ssh-agent: a path, `SSH_AUTH_SOCK` or another `$VARIABLE` for the one it names, or `none`. `algorithms`:
    what ssh_config allows, where it does not leave that to ssh; by kind: kex, ciphers, keys (the host's), pubkeys.
    `ciphers`: all that ssh would offer, where there is an ssh. `ignored`: IgnoreUnknown, as it is written.
    """

    name: str
    address: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    identity_named: bool
    identities_only: bool
    jumps: tuple[str, ...]
    proxy_command: str | None
    known_hosts: tuple[Path, ...]
    new_keys: Path | None
    alias: str | None
    accept_new: bool
    host_key: str | None
    connect_timeout: float
    certificates: tuple[Path, ...] = ()
    agent: str = "SSH_AUTH_SOCK"
    alive_interval: float = ALIVE_INTERVAL_S
    alive_count: int = ALIVE_COUNT
    algorithms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ciphers: tuple[str, ...] = ()
    ignored: str = ""

    @property
    def place(self) -> str:
        """What to call it in messages."""
        return f"{self.name} ({self.user}@{self.address}:{self.port})"

    def proxy_line(self) -> str:
        """Its ProxyCommand with the tokens replaced, which `ssh -G` leaves to whoever runs it. ConnectError."""
        tokens = {"%": "%", "h": self.address, "n": self.name, "p": str(self.port), "r": self.user}

        def value(found: re.Match[str]) -> str:
            if found[1] not in tokens:
                raise ConnectError(
                    f"the ProxyCommand {self.proxy_command!r} has %{found[1]}, which is not supported",
                    f"use only {', '.join(f'%{token}' for token in tokens)} in it, "
                    "or write `transport: openssh` in the inventory",
                )
            return tokens[found[1]]

        return re.sub("%(.?)", value, self.proxy_command or "")

    @property
    def known_as(self) -> str:
        """The name under which known_hosts has this server."""
        if self.alias:
            return self.alias
        return self.address if self.port == 22 else f"[{self.address}]:{self.port}"


def route(host: Host) -> list[Hop]:
    """Every connection to make, in order, the last to `host` itself.

    As with ssh, a list of jump hosts is gone through in its order, and only the first of them is reached as its own
    entry in ssh_config says. ConnectError when that leads in a circle, or ssh refuses its configuration.
    """
    hops = [resolve(host)]
    while hops[0].jumps:
        first, *others = hops[0].jumps
        hops = [resolve_jump(first), *map(resolve_jump, others), *hops]
        places = [(hop.user, hop.address, hop.port) for hop in hops]
        if len(set(places)) < len(places) or len(places) > MOST_HOPS:
            raise ConnectError(
                f"the way to {host.name} does not end: {' -> '.join(hop.name for hop in hops)}",
                "see `jump` in the inventory and ProxyJump in ~/.ssh/config: the way leads through a host twice, "
                f"or through more than {MOST_HOPS}",
            )
    return hops


def overrides(host: Host) -> list[str]:
    """What the inventory says of the way, as options of ssh."""
    said = {"-p": host.port, "-l": host.user, "-J": host.jump}
    return [word for option, value in said.items() if value is not None for word in (option, str(value))]


def resolve(host: Host) -> Hop:
    """The last hop, to `host` itself. ConnectError when ssh refuses its own configuration."""
    settings = settings_of(host.address, overrides(host))
    identity_files = (host.identity_file,) if host.identity_file else _paths(settings.get("identityfile", []))
    return _hop(
        host.address,
        settings,
        identity_files=identity_files,
        identity_named=host.identity_file is not None,
        identities_only=host.identity_file is not None or _yes(settings, "identitiesonly"),
        host_key=host.host_key,
    )


def resolve_jump(spec: str) -> Hop:
    """A jump host, written as ssh does: [user@]host[:port]."""
    user, _, place = spec.rpartition("@")
    if place.startswith("["):  # an IPv6 address with its port
        name, _, port = place[1:].replace("]:", "]").partition("]")
    else:
        name, _, port = place.partition(":") if place.count(":") == 1 else (place, "", "")
    settings = settings_of(name, (["-l", user] if user else []) + (["-p", port] if port else []))
    return _hop(
        name,
        settings,
        identity_files=_paths(settings.get("identityfile", [])),
        identity_named=False,
        identities_only=_yes(settings, "identitiesonly"),
        host_key=None,
    )


def _hop(
    name: str,
    settings: dict[str, list[str]],
    *,
    identity_files: tuple[Path, ...],
    identity_named: bool,
    identities_only: bool,
    host_key: str | None,
) -> Hop:
    def one(key: str, default: str) -> str:
        return settings.get(key, [default])[0]

    jump, command = one("proxyjump", "none"), one("proxycommand", "none")
    alias = one("hostkeyalias", "none")
    own, system = (
        _files(one(key, default), os.environ.get("HOME"))
        for key, default in (
            ("userknownhostsfile", "~/.ssh/known_hosts"),
            ("globalknownhostsfile", " ".join(SYSTEM_KNOWN_HOSTS)),
        )
    )
    timeout, port = one("connecttimeout", "none"), one("port", "22")
    address, user = one("hostname", name), one("user", "") or getpass.getuser()
    if not port.isdigit():
        raise ConnectError(f"the port of {name} is no number: {port!r}", "mend ~/.ssh/config or the inventory")
    return Hop(
        name=name,
        address=address,
        port=int(port),
        user=user,
        identity_files=identity_files,
        identity_named=identity_named,
        identities_only=identities_only,
        jumps=() if jump == "none" else tuple(jump.split(",")),
        proxy_command=None if command == "none" or jump != "none" else command,
        known_hosts=(*own, *system),
        new_keys=own[0] if own else None,
        alias=None if alias == "none" else alias,
        accept_new=one("stricthostkeychecking", "ask") in ("accept-new", "no", "off", "false"),
        host_key=host_key,
        connect_timeout=_positive(timeout, CONNECT_TIMEOUT_S),
        certificates=tuple(Path(file).expanduser() for file in settings.get("certificatefile", [])),
        agent=one("identityagent", "SSH_AUTH_SOCK"),
        alive_interval=_positive(one("serveraliveinterval", "0"), ALIVE_INTERVAL_S),
        alive_count=round(_positive(one("serveralivecountmax", "0"), ALIVE_COUNT)),
        algorithms=restrictions(settings),
        ciphers=tuple(one("ciphers", "").split(",")) if "ciphers" in settings else (),
        ignored=one("ignoreunknown", ""),
    )


@functools.lru_cache(maxsize=64)
def _files(names: str, _home: str | None) -> list[Path]:
    """A list of names, as of `known_hosts`; many hosts have the same."""
    return [Path(name).expanduser() for name in names.split() if name.lower() != "none"]


def _paths(values: list[str]) -> tuple[Path, ...]:
    """Those that are there; of a key that only ssh-agent has, the public half may be."""
    paths = (Path(value).expanduser() for value in values)
    return tuple(path for path in paths if path.is_file() or path.with_name(path.name + ".pub").is_file())


def _positive(text: str, default: float) -> float:
    return float(text) if text.isdigit() and int(text) else default


def _yes(settings: dict[str, list[str]], key: str) -> bool:
    return settings.get(key, ["no"])[0] == "yes"


def dial(hop: Hop) -> socket.socket:
    """A TCP connection to `hop`. Raises what `socket.create_connection` raises."""
    sock = socket.create_connection((hop.address, hop.port), timeout=hop.connect_timeout)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # paramiko's keep-alive asks for no reply: only the kernel notices a peer that is gone (paramiko #918).
        dead_after_ms = min(round(hop.alive_interval * hop.alive_count * 1000), LONGEST_MS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, dead_after_ms)
    return sock
