"""Files of keys: the private key in one, and why one gives none."""

from __future__ import annotations

import functools
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.pkey import UnknownKeyType

from . import passphrase
from .public_keys import kind, public_half, public_line
from .stamp import Stamp, stamp


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
        return _read(path, stamp(path), stamp(path.with_name(path.name + "-cert.pub")))
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}", correct) from error
    except (TypeError, paramiko.PasswordRequiredException) as error:  # cryptography misses the password's type
        raise NeedsPassphrase(path) from error
    except (ValueError, UnsupportedAlgorithm, paramiko.SSHException, UnknownKeyType) as error:
        public = public_half(path)
        if public and kind(public).startswith("sk-"):
            raise Unusable(
                f"{path} is a hardware key, which paramiko cannot use",
                "write `transport: openssh` in the inventory, or load it with ssh-add",
            ) from error
        if public_line(path):
            raise Unusable(
                f"{path} is a public key, and ssh-agent does not hold its private one",
                f"load it with ssh-add, or {correct}",
            ) from error
        raise Unusable(f"{path} holds no private key that can be used", correct) from error


@functools.lru_cache(maxsize=64)
def _read(path: Path, *_stamps: Stamp | None) -> paramiko.PKey:
    """Once, as long as neither it nor its certificate changes: many hosts have the same."""
    return paramiko.PKey.from_path(path)


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
