"""Which server key we accept: the pinned one, those in known_hosts, and no other.

An unknown host is refused unless the user's ssh_config says `StrictHostKeyChecking accept-new` for it; a changed key is
always refused, with the file and line that holds the old one.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import paramiko
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from .errors import HostKeyError
from .ssh_config import Hop


def install(client: paramiko.SSHClient, hop: Hop) -> None:
    """Give `client` the keys it may accept for `hop`, and the policy for hosts that have none."""
    if hop.host_key is not None:
        entry = _entry(f"{hop.known_as} {hop.host_key}")
        if entry is None or entry.key is None:
            raise HostKeyError(
                f"{hop.name}: host_key is no public key: {hop.host_key[:40]!r}",
                "write it as in known_hosts: the type, a blank, the key",
            )
        client.get_host_keys().add(hop.known_as, entry.key.get_name(), entry.key)
    else:
        for path in hop.known_hosts:
            for entry in map(_entry, _lines(path)):  # line by line: a bad one spoils no other, as with ssh
                if entry is not None and entry.key is not None:
                    for name in entry.hostnames:
                        client.get_host_keys().add(name, entry.key.get_name(), entry.key)
    client.set_missing_host_key_policy(_AcceptNew(hop) if hop.accept_new and not hop.host_key else _Refuse(hop))


def changed(hop: Hop, error: paramiko.BadHostKeyException) -> HostKeyError:
    """The host shows another key than the one we know: name both, and where ours stands."""
    shown, known = fingerprint(error.key), fingerprint(error.expected_key)
    if hop.host_key is not None:
        place, mend = "host_key in the inventory", "pin the new key there"
    else:
        place = _known_line(hop, error.expected_key)
        mend = f"run `ssh-keygen -R '{hop.known_as}'`"
    return HostKeyError(
        f"{hop.name} shows the host key {shown}, but {place} says {known}: somebody may be in between",
        f"ask who runs the host; if the change is meant, {mend}",
    )


def fingerprint(key: paramiko.PKey) -> str:
    """As ssh prints it: type and SHA256 in base64."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"


class _Refuse(paramiko.MissingHostKeyPolicy):
    def __init__(self, hop: Hop) -> None:
        self.hop = hop

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002
        hop = self.hop
        raise HostKeyError(
            f"{hop.name} is not a known host: it shows {fingerprint(key)}",
            f"compare it with the host's own, then connect once with `ssh -p {hop.port} {hop.address}`, "
            "or pin it as `host_key` in the inventory",
        )


class _AcceptNew(_Refuse):
    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002
        path = self.hop.known_hosts[0]
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{self.hop.known_as} {key.get_name()} {key.get_base64()}\n")


def _known_line(hop: Hop, key: paramiko.PKey) -> str:
    for path in hop.known_hosts:
        for number, line in enumerate(_lines(path), 1):
            entry = _entry(line)
            if entry is not None and entry.key is not None and entry.key.asbytes() == key.asbytes():
                return f"{path}:{number}"
    return "known_hosts"


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []


def _entry(line: str) -> HostKeyEntry | None:
    try:
        return HostKeyEntry.from_line(line)
    except (InvalidHostKey, paramiko.SSHException):
        return None
