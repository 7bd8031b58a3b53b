"""Files of keys: the private key in one, its public half, and why one gives none."""

from __future__ import annotations

import base64
import binascii
import functools
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.pkey import UnknownKeyType

from . import passphrase

_MAGIC = b"openssh-key-v1\0"


class Unusable(Exception):
    """A file that gives no key: why, and what to do about it."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.why, self.remedy = why, remedy


class NeedsPassphrase(Unusable):
    """The key is encrypted."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is encrypted, and ssh-agent does not hold its key",
            f"load it with `ssh-add {path}`, or run this on a terminal, where its passphrase can be asked for",
        )


def private_key(path: Path) -> paramiko.PKey:
    """The key in a file, with its certificate if there is one. Unusable when it is encrypted, or none."""
    opened: paramiko.PKey | None = passphrase.opened(path)
    if opened is not None:
        return opened
    correct = "correct `identity_file`: the path of a private key on this machine"
    try:
        return _read(path, _stamp(path), _stamp(path.with_name(path.name + "-cert.pub")))
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}", correct) from error
    except (TypeError, paramiko.PasswordRequiredException) as error:  # cryptography misses the password's type
        raise NeedsPassphrase(path) from error
    except (ValueError, UnsupportedAlgorithm, paramiko.SSHException, UnknownKeyType) as error:
        public = public_half(path)
        if public and _string(public)[0].startswith(b"sk-"):
            raise Unusable(
                f"{path} is a hardware key, which paramiko cannot use",
                "write `transport: openssh` in the inventory, or load it with ssh-add",
            ) from error
        if _public_line(path):
            raise Unusable(
                f"{path} is a public key, and ssh-agent does not hold its private one",
                f"load it with ssh-add, or {correct}",
            ) from error
        raise Unusable(f"{path} holds no private key that can be used", correct) from error


@functools.lru_cache(maxsize=64)
def _read(path: Path, *_stamps: tuple[int, ...] | None) -> paramiko.PKey:
    """Once, as long as neither it nor its certificate changes: many hosts have the same."""
    return paramiko.PKey.from_path(path)


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def unlock(path: Path) -> paramiko.PKey:
    """The key in an encrypted file, by a passphrase that is asked for. Unusable when none opens it."""

    def opened_by(words: str) -> paramiko.PKey | None:
        try:
            return paramiko.PKey.from_path(path, words.encode())  # type: ignore[arg-type] # cryptography takes bytes
        except (ValueError, paramiko.SSHException):
            return None

    key: paramiko.PKey | None = passphrase.ask(path, opened_by)
    if key is None:
        raise Unusable(f"no passphrase that was given opens {path}", f"load it with `ssh-add {path}`")
    return key


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


def body(public: bytes) -> bytes:
    """A public key behind its type: a certificate for it has the same bytes in its middle (PROTOCOL.certkeys)."""
    return _string(public)[1]
