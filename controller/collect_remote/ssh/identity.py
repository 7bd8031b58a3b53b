"""Which keys we offer a server: those of the named files, by ourselves or through ssh-agent, then the agent's others.

A key that is encrypted is used by the agent, or its passphrase is asked for where there is a terminal. The agent's is
recognised by its public half, which stands beside the file (FILE.pub) or, readable by everybody, in front of the
encrypted part of OpenSSH's own format (PROTOCOL.key). A certificate is offered before its bare key, as ssh does.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paramiko
from paramiko.agent import AgentKey
from paramiko.pkey import PublicBlob

from . import passphrase
from .key_files import NeedsPassphrase, Unusable, private_key, unlock
from .public_keys import body, public_half
from .ssh_agent import Agent
from .ssh_config import Hop
from .troubles import IDENTITY, SECOND_FACTOR


@dataclass(frozen=True, slots=True)
class Encrypted:
    """A key in a file that wants a passphrase, which is asked for when its turn comes."""

    path: Path
    certificates: tuple[Path, ...]


@dataclass(slots=True)
class Identities:
    """What is offered to one server, in this order; what had to be left out."""

    user: str
    keys: list[tuple[str, paramiko.PKey | Encrypted]]
    unusable: list[Unusable]

    @property
    def names(self) -> str:
        return ", ".join(name for name, _ in self.keys) or "none"

    @property
    def with_rsa(self) -> bool:
        return any(isinstance(key, paramiko.PKey) and key.get_name().startswith("ssh-rsa") for _, key in self.keys)

    def authenticate(self, transport: paramiko.Transport) -> None:
        """Log in with the first key that is accepted. paramiko.AuthenticationException when none is."""
        refusal = paramiko.AuthenticationException("there is no key to offer")
        waiting, self.keys = self.keys, []
        while waiting:
            name, key = waiting.pop(0)
            if isinstance(key, Encrypted):
                waiting[:0] = self._unlocked(key)
                continue
            self.keys.append((name, key))
            try:
                left = transport.auth_publickey(self.user, key)
            except paramiko.AuthenticationException as error:
                refusal = error
            except paramiko.SSHException as error:  # the agent does not sign, or the server has had enough
                refusal = paramiko.AuthenticationException(str(error))
            else:
                if left:
                    raise SECOND_FACTOR(name=name, ways=" or ".join(left))
                return
            if not transport.is_active():
                break
        raise refusal

    def _unlocked(self, key: Encrypted) -> list[tuple[str, paramiko.PKey | Encrypted]]:
        """The key as it is offered, if its passphrase is given."""
        try:
            return list(_with_certificates(str(key.path), unlock(key.path), key.certificates))
        except Unusable as problem:
            self.unusable.append(problem)
            return []


@contextlib.contextmanager
def identities(hop: Hop) -> Iterator[Identities]:
    """What to offer `hop`; the agent stays connected meanwhile. AuthError for a useless key of the inventory."""
    agent = Agent(hop.agent)
    found, held = Identities(hop.user, [], []), dict(agent.held)
    locked: list[tuple[str, paramiko.PKey | Encrypted]] = []
    try:
        for path in hop.identity_files:
            try:
                found.keys += _of_file(path, held, hop.certificates)
            except Unusable as problem:
                if isinstance(problem, NeedsPassphrase) and passphrase.may_ask():
                    locked.append((str(path), Encrypted(path, hop.certificates)))
                elif hop.identity_named:
                    useless = IDENTITY(host=hop.name, why=problem.why)
                    useless.remedy = problem.remedy
                    raise useless from problem
                else:
                    found.unusable.append(problem)  # as with ssh, another key may do
        if not hop.identities_only:
            found.keys += [(f"{key.comment or key.get_name()} in ssh-agent", key) for key in held.values()]
        found.keys += locked
        yield found
    finally:
        agent.close()


def _of_file(
    path: Path, held: dict[bytes, Any], certificates: Sequence[Path]
) -> list[tuple[str, paramiko.PKey | Encrypted]]:
    """What a named file stands for: certificates and key of the agent, taken out of `held`, or its own."""
    public = public_half(path) if held else None
    key = held.pop(public, None) if public else None
    if public is None or key is None:
        return list(_with_certificates(str(path), private_key(path), certificates))
    own = [blob for blob, other in held.items() if other.public_blob and body(public) in blob]
    return [
        *((f"{path} in ssh-agent, by certificate", held.pop(blob)) for blob in own),
        *_with_certificates(f"{path} in ssh-agent", key, [path.with_name(path.name + "-cert.pub"), *certificates]),
    ]


def _with_certificates(
    name: str, key: paramiko.PKey, certificates: Sequence[Path]
) -> Iterator[tuple[str, paramiko.PKey]]:
    """The key under every certificate that is made out for it, then alone."""
    bare = _bare(key)
    blobs = [key.public_blob] if key.public_blob else []
    for path in certificates:
        with contextlib.suppress(OSError, ValueError):
            blob = PublicBlob.from_file(str(path))
            if body(bare.asbytes()) in blob.key_blob and blob not in blobs:
                blobs.append(blob)
    for blob in blobs:
        under = _bare(key)
        under.public_blob = blob
        yield f"{name} by certificate", under
    yield name, bare


def _bare(key: paramiko.PKey) -> paramiko.PKey:
    """The same key without a certificate."""
    # One of the agent asks its inner key for what it does not have, before it has one: it cannot be copied.
    bare = AgentKey(key.agent, key.blob, key.comment) if isinstance(key, AgentKey) else copy.copy(key)
    bare.public_blob = None
    return bare
