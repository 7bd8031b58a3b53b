"""Which server key we accept: the pinned one, those in known_hosts, and no other.

An unknown host is refused unless the user's ssh_config says `StrictHostKeyChecking accept-new` for it; a changed key is
always refused, with the file and line that holds the old one. known_hosts is read as sshd(8) describes it: patterns,
negations, hashed names, and @revoked. paramiko asks no server for a certificate: a host that is known by its
@cert-authority alone is left to the system's ssh.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import HostKeyError, Trouble
from .ssh_config import Hop
from .stamp import Stamp, stamp

REVOKED, AUTHORITY = "@revoked", "@cert-authority"
_MEANS_MANY = re.compile(r"[*?!|]")

UNKNOWN = Trouble(
    "host-key-unknown",
    HostKeyError,
    "{host} is not a known host: it shows {shown}",
    "no key of it stands in known_hosts or in the inventory, and no other is accepted; `StrictHostKeyChecking "
    "accept-new` in ~/.ssh/config is honoured",
    "compare it with the host's own, then connect once with `ssh -p {port} {address}`, or pin it as `host_key` in the "
    "inventory",
)
BY_AUTHORITY = Trouble(
    "host-key-by-authority",
    HostKeyError,
    "{host} is known by the certificate authority of {place} alone, and paramiko takes no certificate; its plain "
    "key is {shown}",
    "an @cert-authority of known_hosts speaks for it",
    "write `transport: openssh` in the inventory: the system's ssh checks the certificate; or pin the plain key as "
    "`host_key`",
)
CHANGED = Trouble(
    "host-key-changed",
    HostKeyError,
    "{host} shows the host key {shown}, but {place} says {known}: somebody may be in between",
    "the host was installed anew, its address belongs to another machine now, or somebody is in between",
    "ask who runs the host; if the change is meant, run `ssh-keygen -R '{name}'`",
)
GONE = Trouble(
    "host-key-revoked",
    HostKeyError,
    "{host} shows the host key {shown}, which {place} marks as revoked: somebody may be in between",
    "that key has fallen into other hands, or was taken out of use",
    "ask who runs the host for its new key",
)


@dataclass(frozen=True, slots=True)
class Known:
    """A key that is listed for a host: its type, its bytes on the wire, where it stands, and its marker if any."""

    kind: str
    blob: bytes
    place: str
    marker: str = ""

    @property
    def fingerprint(self) -> str:
        """As ssh prints it: type and SHA256 in base64."""
        import hashlib  # which loads a library of cryptography, and few hosts need it here

        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")
        return f"{self.kind} SHA256:{digest}"


class Policy:
    """Judges the key that `hop` shows."""

    def __init__(self, hop: Hop) -> None:
        self._hop = hop
        self._known = [pinned(hop)] if hop.host_key is not None else list(listed(hop))

    @property
    def kinds(self) -> set[str]:
        """The types of the keys that would be accepted, to be asked for first."""
        return {known.kind for known in self._known if not known.marker}

    def judge(self, kind: str, blob: bytes) -> None:
        """HostKeyError unless the key is the one we know, or may be taken for new."""
        hop, shown = self._hop, Known(kind, blob, "")
        same = [known for known in self._known if known.blob == shown.blob and known.marker != AUTHORITY]
        for known in same:
            if known.marker:
                raise revoked(hop, shown.fingerprint, known.place)
        if same:
            return
        others = [known for known in self._known if not known.marker]
        if others:
            raise changed(hop, shown.fingerprint, min(others, key=lambda known: known.kind != shown.kind))
        if not hop.accept_new:
            authority = next((known.place for known in self._known if known.marker == AUTHORITY), "")
            raise unknown(hop, shown.fingerprint, authority)
        if hop.new_keys is not None:
            with contextlib.suppress(OSError):  # it is asked again next time, as with ssh
                hop.new_keys.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                _append(hop.new_keys, f"{hop.known_as} {kind} {base64.b64encode(blob).decode()}")


def revoked(hop: Hop, shown: str, place: str) -> HostKeyError:
    """The server shows a key that `place` forbids. `shown` is its fingerprint."""
    return GONE(host=hop.name, shown=shown, place=place)


def unknown(hop: Hop, shown: str, authority: str = "") -> HostKeyError:
    """The server is not known. `authority`: where a certificate authority is listed for it."""
    if authority:
        return BY_AUTHORITY(host=hop.name, place=authority, shown=shown)
    return UNKNOWN(host=hop.name, shown=shown, port=hop.port, address=hop.address)


def changed(hop: Hop, shown: str, known: Known) -> HostKeyError:
    """The server shows another key than the one that is `known`."""
    error = CHANGED(host=hop.name, shown=shown, place=known.place, known=known.fingerprint, name=hop.known_as)
    if hop.host_key is not None:
        error.remedy = "ask who runs the host; if the change is meant, pin the new key there"
    return error


def pinned(hop: Hop) -> Known:
    """The key that the inventory names for this server. HostKeyError when it is none."""
    known = _key(hop.host_key or "", "host_key in the inventory")
    if known is None:
        raise HostKeyError(
            f"{hop.name}: host_key is no public key: {(hop.host_key or '')[:40]!r}",
            "write it as in known_hosts: the type, a blank, the key",
        )
    return known


def listed(hop: Hop) -> Iterator[Known]:
    """Every line of the known_hosts files that means this server."""
    for path in hop.known_hosts:
        try:
            file = _read(path, stamp(path))
        except OSError:  # as with ssh, what cannot be read knows nobody
            continue
        for number, (marker, names, key) in file.about(hop.known_as.lower()):
            if matches(hop.known_as, names):
                known = _key(key, f"{path}:{number}", marker)
                if known is not None:  # a bad line spoils no other
                    yield known


@dataclass(frozen=True, slots=True)
class _File:
    """A known_hosts file, for many hosts.

    lines     by number, from 1: marker, names, key
    plainly   by a name in lower case, the numbers of the lines that have it and no pattern
    others    the numbers of those with patterns or hashed names, which may mean anybody
    """

    lines: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    plainly: dict[str, list[int]] = field(default_factory=dict)
    others: list[int] = field(default_factory=list)

    def about(self, name: str) -> Iterator[tuple[int, tuple[str, str, str]]]:
        """In their order, the lines that may mean `name`."""
        for number in sorted({*self.plainly.get(name, ()), *self.others}):
            yield number, self.lines[number]


@functools.lru_cache(maxsize=16)
def _read(path: Path, _stamp: Stamp | None) -> _File:
    """Once, as long as it does not change. OSError."""
    found, text = _File(), path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
        names, key = "".join(fields[:1]), " ".join(fields[1:3])
        if marker not in ("", REVOKED, AUTHORITY) or not names or names.startswith("#"):
            continue
        found.lines[number] = marker, names, key
        if _MEANS_MANY.search(names):
            found.others.append(number)
        else:
            for name in names.lower().split(","):
                found.plainly.setdefault(name, []).append(number)
    return found


def _append(path: Path, line: str) -> None:
    """Add a line of its own, also behind a last one that somebody left without its end."""
    with path.open("a+b") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        before = b"" if file.read(1) in (b"", b"\n") else b"\n"
        file.write(before + line.encode() + b"\n")


def _key(text: str, place: str, marker: str = "") -> Known | None:
    """A public key as it is written: its type, a blank, its bytes in base64, perhaps a comment."""
    kind, *rest = text.split()[:2] or [""]
    try:
        blob = base64.b64decode("".join(rest), validate=True)
    except (binascii.Error, ValueError):
        return None
    # The bytes begin with the type, its length in front.
    head = len(kind).to_bytes(4, "big") + kind.encode()
    return Known(kind, blob, place, marker) if kind and blob.startswith(head) and len(blob) > len(head) else None


def matches(host: str, names: str) -> bool:
    """Whether the first field of a known_hosts line means `host`, which is `name` or `[name]:port`."""
    host = host.lower()
    found = False
    for name in names.split(","):
        if name.startswith("|1|"):
            found = found or _hashed(host, name)
        elif _means(name.lstrip("!").lower(), host):
            if name.startswith("!"):
                return False
            found = True
    return found


def _means(name: str, host: str) -> bool:
    """Most names are no patterns, and every host of a fleet is looked up among all of them."""
    return name == host or (("*" in name or "?" in name) and _pattern(name).fullmatch(host) is not None)


def _pattern(text: str) -> re.Pattern[str]:
    """`*` and `?` as in ssh_config; brackets stand for themselves, they enclose names with ports."""
    return re.compile("".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in text))


def _hashed(host: str, name: str) -> bool:
    """|1|salt|HMAC-SHA1 of the name, both in base64: what HashKnownHosts writes."""
    import hmac

    try:
        salt, digest = map(base64.b64decode, name.split("|")[2:4])
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.digest(salt, host.encode(), "sha1"), digest)
