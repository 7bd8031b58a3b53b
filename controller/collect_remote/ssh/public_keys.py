"""The public half of a key, from the files that hold it: nothing is decrypted for it.

It stands beside the private one (FILE.pub), or, readable by everybody, in front of the encrypted part of OpenSSH's own
format (PROTOCOL.key).
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

_MAGIC = b"openssh-key-v1\0"


def kind(public: bytes) -> str:
    """The type of a public key or a signature, which its bytes begin with: "ssh-ed25519"."""
    return _string(public)[0].decode("ascii", "replace")


def public_half(path: Path) -> bytes | None:
    """The public key that belongs to a file, as it goes over the wire; None when the file does not tell."""
    return _enclosed(path) or public_line(path) or public_line(path.with_name(path.name + ".pub"))


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


def public_line(path: Path) -> bytes | None:
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
