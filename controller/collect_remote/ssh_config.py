"""How to reach a host: what the inventory says, over what `ssh` itself would do with the same name.

`ssh -G` is asked where an `ssh` is installed: it knows Include, Match and every default. Elsewhere paramiko's own
parser serves, which knows neither Include nor most of Match.
"""

from __future__ import annotations

import getpass
import os
import pwd
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import ConnectError
from .inventory import Host

SYSTEM_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
SSH_TIMEOUT_S = 10  # `ssh -G` runs whatever a `Match exec` names
MOST_HOPS = 8


@dataclass(frozen=True, slots=True)
class Hop:
    """One SSH connection to make, everything resolved. Times are seconds.

    `identity_named`: the inventory names its key. `new_keys`: the file that takes the key of a new host.
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


def resolve(host: Host) -> Hop:
    """The last hop, to `host` itself. ConnectError when ssh refuses its own configuration."""
    overrides = []
    if host.port is not None:
        overrides += ["-p", str(host.port)]
    if host.user is not None:
        overrides += ["-l", host.user]
    if host.jump is not None:
        overrides += ["-J", host.jump]
    settings = _settings(host.address, overrides)
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
    overrides = (["-l", user] if user else []) + (["-p", port] if port else [])
    settings = _settings(name, overrides)
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
        [Path(file).expanduser() for file in one(key, default).split() if file.lower() != "none"]
        for key, default in (
            ("userknownhostsfile", "~/.ssh/known_hosts"),
            ("globalknownhostsfile", " ".join(SYSTEM_KNOWN_HOSTS)),
        )
    )
    timeout, port = one("connecttimeout", "none"), one("port", "22")
    address, user = one("hostname", name), one("user", getpass.getuser())
    if not port.isdigit():
        raise ConnectError(f"the port of {name} is no number: {port!r}", "mend ~/.ssh/config or the inventory")
    tokens = {"%": "%", "h": address, "n": name, "p": port, "r": user}
    return Hop(
        name=name,
        address=address,
        port=int(port),
        user=user,
        identity_files=identity_files,
        identity_named=identity_named,
        identities_only=identities_only,
        jumps=() if jump == "none" else tuple(jump.split(",")),
        proxy_command=None if command == "none" or jump != "none" else _expanded(command, tokens),
        known_hosts=(*own, *system),
        new_keys=own[0] if own else None,
        alias=None if alias == "none" else alias,
        accept_new=one("stricthostkeychecking", "ask") in ("accept-new", "no", "off", "false"),
        host_key=host_key,
        connect_timeout=float(timeout) if timeout.isdigit() and int(timeout) else 20.0,
    )


def _expanded(command: str, tokens: dict[str, str]) -> str:
    """A ProxyCommand with its tokens replaced, which `ssh -G` leaves to whoever runs it."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in tokens:
            raise ConnectError(
                f"the ProxyCommand {command!r} has %{found[1]}, which is not supported",
                f"use only {', '.join(f'%{token}' for token in tokens)} in it",
            )
        return tokens[found[1]]

    return re.sub("%(.?)", value, command)


def _settings(name: str, overrides: list[str]) -> dict[str, list[str]]:
    """ssh_config for `name`: keyword in lower case -> values, repeated keywords in order."""
    config = Path("~/.ssh/config").expanduser()
    ssh = shutil.which("ssh")
    if ssh is None:
        return _paramiko_settings(name, overrides, config)
    # ssh takes its home from the user database and not from $HOME; where they differ, $HOME is meant.
    account = pwd.getpwuid(os.getuid()).pw_dir
    chosen = ["-F", str(config) if config.exists() else os.devnull] if Path(account) != Path.home() else []
    # A name is data, never an option, whatever it begins with.
    try:
        result = subprocess.run(
            [ssh, "-G", *chosen, *overrides, "--", name],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=SSH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise ConnectError(
            f"`ssh -G {name}` gives no answer within {SSH_TIMEOUT_S} s",
            f"see what `Match exec` in {config} runs",
        ) from error
    if result.returncode:
        raise _rejected(name, result.stderr, config)
    settings: dict[str, list[str]] = {}
    for line in result.stdout.splitlines():
        key, _, value = line.partition(" ")
        settings.setdefault(key, []).append(value.replace(account + "/.ssh/", "~/.ssh/"))
    return settings


def _rejected(name: str, said: str, config: Path) -> ConnectError:
    """Errors of configuration files name a line; others are about what the inventory made us ask for."""
    lines = [line for line in said.strip().splitlines() if not line.startswith("Pseudo-terminal")]
    why = "; ".join(lines)
    if re.search(r"\bline [0-9]+\b|configuration option", why):
        return ConnectError(f"ssh rejects its configuration for {name}: {why}", f"mend {config}, then try `ssh {name}`")
    return ConnectError(
        f"ssh cannot make out how to reach {name!r}: {why}",
        "correct `address`, `user`, `port` or `jump` in the inventory (a jump host is written [user@]host[:port])",
    )


def _paramiko_settings(name: str, overrides: list[str], config: Path) -> dict[str, list[str]]:
    import paramiko

    # The first value of a keyword holds, and other values are made from it: ours come first.
    keys = {"-p": "Port", "-l": "User", "-J": "ProxyJump"}
    ours = "".join(f"    {keys[key]} {value}\n" for key, value in zip(overrides[::2], overrides[1::2], strict=True))
    try:
        theirs = config.read_text(encoding="utf-8", errors="replace") if config.exists() else ""
        found = paramiko.SSHConfig.from_text(f"Host *\n{ours}\nHost *\n{theirs}").lookup(name)
    except paramiko.ConfigParseError as error:
        raise ConnectError(f"cannot read {config}: {error}", "mend it, or install the ssh client") from error
    settings = {key: list(value) if key == "identityfile" else [str(value)] for key, value in found.items()}
    settings.setdefault("identityfile", ["~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"])
    return settings


def _paths(values: list[str]) -> tuple[Path, ...]:
    """Those that are there; of a key that only ssh-agent has, the public half may be."""
    paths = (Path(value).expanduser() for value in values)
    return tuple(path for path in paths if path.is_file() or path.with_name(path.name + ".pub").is_file())


def _yes(settings: dict[str, list[str]], key: str) -> bool:
    return settings.get(key, ["no"])[0] == "yes"
