"""Key material of simulated hosts and of their clients, as the files that OpenSSH reads; certificates and an agent."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

Kind = Literal["ed25519", "rsa", "ecdsa"]
AGENT_START_SECONDS = 10.0


class KeyPair(NamedTuple):
    """The private file's text, and the public line ``ssh-ed25519 AAAA...``."""

    private: bytes
    public: str


def generate(kind: Kind = "ed25519", passphrase: str = "") -> KeyPair:
    """A new key pair; RSA has 2048 bits, ECDSA is on nistp256.  With `passphrase` the private key is encrypted."""
    key: ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    if kind == "rsa":
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    elif kind == "ecdsa":
        key = ec.generate_private_key(ec.SECP256R1())
    else:
        key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption(),
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
        path.parent.mkdir(parents=True, exist_ok=True)
        public.write_text(pair.public + "\n", encoding="ascii")
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pair.private)
    return public.read_text(encoding="ascii").strip()


def certify(authority: Path, key: Path, *, principals: str, of_host: bool = False, valid: str = "+1h") -> Path:
    """Sign the key pair `key` with the private key `authority`; the certificate, `key`-cert.pub.

    principals  comma-separated: user names, or host names with `of_host`
    valid       as ``ssh-keygen -V`` takes it; ``-2h:-1h`` is over
    """
    subprocess.run(
        [
            *("ssh-keygen", "-q", "-s", str(authority), "-I", key.name, "-n", principals, "-V", valid),
            *(["-h"] if of_host else []),
            str(key) + ".pub",
        ],
        check=True,
        capture_output=True,
    )
    return key.with_name(key.name + "-cert.pub")


def _listens(path: str) -> bool:
    """A socket has its name before anybody listens on it."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


@contextlib.contextmanager
def agent(*keys: Path) -> Iterator[str]:
    """An ssh-agent that holds `keys` (not encrypted) and the certificates beside them; its SSH_AUTH_SOCK."""
    with tempfile.TemporaryDirectory(prefix="agent-", dir="/tmp") as folder:  # a socket's path must be short
        sock = f"{folder}/sock"
        with subprocess.Popen(["ssh-agent", "-D", "-a", sock], stdout=subprocess.DEVNULL) as process:
            try:
                deadline = time.monotonic() + AGENT_START_SECONDS
                while not _listens(sock):
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError("ssh-agent did not start")
                    time.sleep(0.005)
                if keys:
                    subprocess.run(
                        ["ssh-add", "-q", *map(str, keys)],
                        env={**os.environ, "SSH_AUTH_SOCK": sock},
                        stdin=subprocess.DEVNULL,
                        check=True,
                        capture_output=True,
                    )
                yield sock
            finally:
                process.terminate()
