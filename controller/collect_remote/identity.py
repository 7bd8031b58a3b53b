"""Which keys we offer a server: those of the named files, by ourselves or through ssh-agent, then the agent's others.

A key that is encrypted is only ever used by the agent. It is recognised there by its public half, which stands beside
the file (FILE.pub) or, readable by everybody, in front of the encrypted part of OpenSSH's own format (PROTOCOL.key).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.pkey import UnknownKeyType

from .errors import AuthError
from .ssh_config import Hop

_MAGIC = b"openssh-key-v1\0"


class Unusable(Exception):
    """A file that gives no key: why, and what to do about it."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.why, self.remedy = why, remedy


@dataclass(frozen=True, slots=True)
class Identities:
    """What is offered to one server, in this order. paramiko's `auth_strategy`."""

    user: str
    keys: tuple[tuple[str, paramiko.PKey], ...]
    unusable: tuple[Unusable, ...]

    @property
    def names(self) -> str:
        return ", ".join(name for name, _ in self.keys) or "none"

    def authenticate(self, transport: paramiko.Transport) -> None:
        """Log in with the first key that is accepted. paramiko.AuthenticationException when none is."""
        refusal = paramiko.AuthenticationException("there is no key to offer")
        for name, key in self.keys:
            try:
                left = transport.auth_publickey(self.user, key)
            except paramiko.AuthenticationException as error:
                refusal = error
            except paramiko.SSHException as error:  # the agent does not sign, or the server has had enough
                refusal = paramiko.AuthenticationException(str(error))
            else:
                if left:
                    raise AuthError(
                        f"the host accepts the key {name}, and asks for {' or '.join(left)} as well",
                        "a log-in without a second step is needed: ask who runs the host for one",
                    )
                return
            if not transport.is_active():
                break
        raise refusal


@contextlib.contextmanager
def identities(hop: Hop) -> Iterator[Identities]:
    """What to offer `hop`; the agent stays connected meanwhile. AuthError for a useless key of the inventory."""
    try:
        agent = paramiko.Agent()
        held = {key.blob: key for key in agent.get_keys()}
    except (paramiko.SSHException, OSError):
        held, agent = {}, None
    keys: list[tuple[str, paramiko.PKey]] = []
    unusable = []
    try:
        for path in hop.identity_files:
            try:
                public = public_half(path)
                key = held.pop(public, None) if public else None
                keys.append((f"{path} in ssh-agent", key) if key else (str(path), private_key(path)))
            except Unusable as problem:
                if hop.identity_named:
                    raise AuthError(f"{hop.name}: identity_file {problem.why}", problem.remedy) from problem
                unusable.append(problem)  # as with ssh, another key may do
        if not hop.identities_only:
            keys += [(f"{key.comment or key.get_name()} in ssh-agent", key) for key in held.values()]
        yield Identities(hop.user, tuple(keys), tuple(unusable))
    finally:
        if agent is not None:
            agent.close()


def private_key(path: Path) -> paramiko.PKey:
    """The key in a file, with its certificate if there is one. Unusable when it is encrypted, or none."""
    correct = "correct `identity_file`: the path of a private key on this machine"
    try:
        return paramiko.PKey.from_path(path)
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}", correct) from error
    except (TypeError, paramiko.PasswordRequiredException) as error:  # cryptography misses the password's type
        raise Unusable(
            f"{path} is encrypted, and ssh-agent does not hold its key", f"load it with `ssh-add {path}`"
        ) from error
    except (ValueError, UnsupportedAlgorithm, paramiko.SSHException, UnknownKeyType) as error:
        if _public_line(path):
            raise Unusable(
                f"{path} is a public key, and ssh-agent does not hold its private one",
                f"load it with ssh-add, or {correct}",
            ) from error
        raise Unusable(f"{path} holds no private key that can be used", correct) from error


def public_half(path: Path) -> bytes | None:
    """The public key that belongs to a file, as it goes over the wire; None when the file does not tell."""
    return _enclosed(path) or _public_line(path) or _public_line(path.with_name(path.name + ".pub"))


def _enclosed(path: Path) -> bytes | None:
    try:
        lines = path.read_bytes().split(b"\n")
        data = base64.b64decode(b"".join(line.strip() for line in lines if not line.startswith(b"-----")))
    except (OSError, binascii.Error, ValueError):
        return None
    if not data.startswith(_MAGIC):
        return None
    rest = data[len(_MAGIC) :]
    for _ in ("cipher", "key derivation", "its options"):
        _, rest = _string(rest)
    return _string(rest[4:])[0] or None  # behind the number of keys


def _string(data: bytes) -> tuple[bytes, bytes]:
    """A string of the wire format, its length in four bytes in front, and what comes after it."""
    end = 4 + int.from_bytes(data[:4], "big")
    return data[4:end], data[end:]


def _public_line(path: Path) -> bytes | None:
    """The key of a file that holds a public one: its type, a blank, its bytes in base64."""
    try:
        kind, text = path.read_text(encoding="utf-8").split()[:2]
        blob = base64.b64decode(text, validate=True)
    except (OSError, ValueError):
        return None
    return blob if _string(blob)[0] == kind.encode() else None
