"""What ssh wrote, as one error: texts that simulated hosts do not bring about. The others: tests/e2e."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from collect_remote.errors import AuthError, ConnectError, HostKeyError, UnreachableError
from collect_remote.ssh.ssh_config import Hop
from collect_remote.ssh.transports.ssh_says import agreed, complaint
from sessions import HOP as PLAIN

HOP = replace(PLAIN, address="192.0.2.7", connect_timeout=20.0)
GATE = replace(HOP, name="gate", address="192.0.2.1")
GREETED = "debug1: Remote protocol version 2.0, remote software version OpenSSH_9.2p1\n"


def told(log: str, *hops: Hop) -> ConnectError:
    return complaint(log, hops or (HOP,), 3.0, lambda hop: [])


@pytest.mark.parametrize(
    ("log", "kind", "message"),
    [
        ("ssh: connect to host 192.0.2.7 port 22: Connection timed out\n", UnreachableError, "Connection timed out"),
        ("ssh: connect to host 192.0.2.7 port 22: No route to host\n", UnreachableError, "No route to host"),
        ("ssh: connect to host 192.0.2.7 port 22: Operation timed out\n", UnreachableError, "Operation timed out"),
        ("ssh: Could not resolve hostname npu: Name or service not known\n", UnreachableError, "does not resolve"),
        (GREETED + "me@192.0.2.7: Permission denied (publickey,gssapi-with-mic).\n", AuthError, "gssapi-with-mic"),
        (GREETED + "Received disconnect from x: 2: Too many authentication failures\n", AuthError, "so many keys"),
        (GREETED + "Host key verification failed.\n", HostKeyError, "is not a known host"),
        (
            "Unable to negotiate with 192.0.2.7 port 22: no matching cipher found. Their offer: 3des-cbc,arcfour\n",
            ConnectError,
            "offers only 3des-cbc, arcfour as cipher",
        ),
        ("", UnreachableError, "no connection after 3 s: it said nothing"),
        (
            "OpenSSH_9.2p1 Debian, OpenSSL 3.0.19\n"
            + GREETED
            + "debug1: SSH2_MSG_NEWKEYS received\nKilled by signal 15.\n",
            UnreachableError,
            "no connection after 3 s: ssh came no further than: SSH2_MSG_NEWKEYS received",
        ),
        (
            GREETED + "debug1: Server accepts key: me@here ED25519 SHA256:abc agent\n",
            AuthError,
            "accepts the key me@here in ssh-agent, which does not sign",
        ),
        ("something new\nConnection closed by 192.0.2.7 port 22\n", UnreachableError, "something new"),
        (GREETED + "Connection reset by 192.0.2.7 port 22\n", UnreachableError, "hung up in the middle of the login"),
        ("kex_exchange_identification: read: Connection reset by peer\n", UnreachableError, "closed it without"),
    ],
)
def test_complaints(log: str, kind: type[ConnectError], message: str) -> None:
    error = told(log)
    assert type(error) is kind
    assert message in error.message
    assert error.message.startswith("npu")
    assert error.remedy


def test_the_hop_that_complains_is_the_one_that_was_reached_last() -> None:
    refused = "me@192.0.2.1: Permission denied (publickey).\nkex_exchange_identification: Connection closed by x\n"
    assert told(GREETED + refused, GATE, HOP).message.startswith("gate")
    assert told(GREETED * 2 + refused, GATE, HOP).message.startswith("npu")


def test_a_changed_key_names_both(tmp_path: Path) -> None:
    known = tmp_path / "known hosts"
    key = "AAAAC3NzaC1lZDI1NTE5AAAAIG1zsjAYKmvOGzWSIDNSVv+9HvLWCkVSLr0LZ0sdJ2+5"
    known.write_text(f"# ours\n192.0.2.7 ssh-ed25519 {key}\n")
    log = (
        "debug1: Server host key: ssh-ed25519 SHA256:shown\n"
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n"
        f"Offending ED25519 key in {known}:2\nHost key verification failed.\n"
    )
    error = told(log, replace(HOP, known_hosts=(known,)))
    assert f"shows the host key ssh-ed25519 SHA256:shown, but {known}:2 says ssh-ed25519 SHA256:" in error.message


def test_what_was_agreed_is_that_of_the_last_hop() -> None:
    cipher = "debug1: kex: server->client cipher: {} MAC: <implicit> compression: none\n"
    log = GREETED + cipher.format("gate") + GREETED.replace("9.2p1", "7.4") + cipher.format("npu")
    assert agreed(log) == ("OpenSSH_7.4", "npu")
    assert agreed("") == (None, None)
