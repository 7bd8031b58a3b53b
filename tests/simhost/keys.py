"""Key pairs of simulated hosts and of their clients, as the files that OpenSSH reads."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519


class KeyPair(NamedTuple):
    """An ed25519 key: the private file's text, and the public line ``ssh-ed25519 AAAA...``."""

    private: bytes
    public: str


def generate() -> KeyPair:
    """A new key pair."""
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(private, public.decode("ascii"))


@functools.lru_cache(maxsize=1)
def client_pair() -> KeyPair:
    """The key of this process's clients: one for all its hosts, a jump host and its target included."""
    return generate()


def stored(path: Path, pair: KeyPair) -> str:
    """Keep `pair` as `path` and `path`.pub unless a pair is there; the public line of what is there."""
    public = path.with_name(path.name + ".pub")
    if not path.exists():
        public.write_text(pair.public + "\n", encoding="ascii")
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pair.private)
    return public.read_text(encoding="ascii").strip()
