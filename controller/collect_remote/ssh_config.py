"""How to reach a host: what the inventory says, over what `ssh` itself would do with the same name.

`ssh -G` is asked where an `ssh` is installed: it knows Include, Match and every default. Elsewhere paramiko's own
parser serves, which knows neither Include nor most of Match.
"""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import ConnectError
from .inventory import Host

SYSTEM_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


@dataclass(frozen=True, slots=True)
class Hop:
    """One SSH connection to make, everything resolved. Times are seconds."""

    name: str
    address: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    identities_only: bool
    jumps: tuple[str, ...]
    proxy_command: str | None
    known_hosts: tuple[Path, ...]
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
        identities_only=_yes(settings, "identitiesonly"),
        host_key=None,
    )


def _hop(
    name: str,
    settings: dict[str, list[str]],
    *,
    identity_files: tuple[Path, ...],
    identities_only: bool,
    host_key: str | None,
) -> Hop:
    def one(key: str, default: str) -> str:
        return settings.get(key, [default])[0]

    jump, command = one("proxyjump", "none"), one("proxycommand", "none")
    alias = one("hostkeyalias", "none")
    files = (
        one("userknownhostsfile", "~/.ssh/known_hosts").split()
        + one("globalknownhostsfile", " ".join(SYSTEM_KNOWN_HOSTS)).split()
    )
    timeout = one("connecttimeout", "none")
    return Hop(
        name=name,
        address=one("hostname", name),
        port=int(one("port", "22")),
        user=one("user", getpass.getuser()),
        identity_files=identity_files,
        identities_only=identities_only,
        jumps=() if jump == "none" else tuple(jump.split(",")),
        proxy_command=None if command == "none" else command,
        known_hosts=tuple(Path(file).expanduser() for file in files),
        alias=None if alias == "none" else alias,
        accept_new=one("stricthostkeychecking", "ask") in ("accept-new", "no", "off", "false"),
        host_key=host_key,
        connect_timeout=float(timeout) if timeout.isdigit() and int(timeout) else 20.0,
    )


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
    result = subprocess.run(
        [ssh, "-G", *chosen, *overrides, "--", name],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if result.returncode:
        raise ConnectError(
            f"ssh rejects its configuration for {name}: {result.stderr.strip()}",
            f"mend {config}, then try `ssh {name}`",
        )
    settings: dict[str, list[str]] = {}
    for line in result.stdout.splitlines():
        key, _, value = line.partition(" ")
        settings.setdefault(key, []).append(value.replace(account + "/.ssh/", "~/.ssh/"))
    return settings


def _paramiko_settings(name: str, overrides: list[str], config: Path) -> dict[str, list[str]]:
    import paramiko

    try:
        parsed = paramiko.SSHConfig.from_path(str(config)) if config.exists() else paramiko.SSHConfig()
        found = parsed.lookup(name)
    except paramiko.ConfigParseError as error:
        raise ConnectError(f"cannot read {config}: {error}", "mend it, or install the ssh client") from error
    settings = {key: list(value) if key == "identityfile" else [str(value)] for key, value in found.items()}
    keys = {"-p": "port", "-l": "user", "-J": "proxyjump"}
    settings.update({keys[option]: [value] for option, value in zip(overrides[::2], overrides[1::2], strict=True)})
    settings.setdefault("identityfile", ["~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"])
    return settings


def _paths(values: list[str]) -> tuple[Path, ...]:
    paths = (Path(value).expanduser() for value in values)
    return tuple(path for path in paths if path.is_file())


def _yes(settings: dict[str, list[str]], key: str) -> bool:
    return settings.get(key, ["no"])[0] == "yes"
