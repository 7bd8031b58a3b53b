"""The command lines of the system's `ssh`, one for every hop: the last is the master, the others carry what comes next.

A ProxyJump hands nothing of what we say on to the `ssh` that it starts. So each of these is written to a small script,
which is the ProxyCommand of the next: every hop gets its settings in the same way, and nothing is quoted twice.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...inventory import Host
from ..agent_socket import named, usable
from ..ssh_config import Hop, overrides
from ..ssh_settings import config_options
from .handshake import FAST_CIPHERS
from .openssh_progress import banner_s

IDLE_S = 120  # after which a master without a guard leaves
# Of ssh_config's words these would turn a connection for commands into something else. Older ones know not all.
_SINCE_8_7 = "ForkAfterAuthentication,SessionType,StdinNull"
_PLAIN = ("StdinNull=no", "RemoteCommand=none", "PermitLocalCommand=no")
_MASTER = ("ClearAllForwardings=yes", f"ControlPersist={IDLE_S}")


def login(ssh: str, folder: Path, host: Host, hops: Sequence[Hop], *, asked: bool) -> list[str]:
    """The command that leaves a master behind. `asked`: somebody sits at a terminal and may be asked something.

    `folder`: for the control socket `s`, the log, and what ssh reads meanwhile; its path needs no quoting.
    """
    way = list[str]()
    for number, (hop, onward) in enumerate(itertools.pairwise(hops)):
        place = ("-l", hop.user, "-p", str(hop.port), "-W", f"[{onward.address}]:{onward.port}", "--", hop.name)
        words = [ssh, "-v", *_options(folder, hops, number, asked=asked), "-o", "ForkAfterAuthentication=no"]
        script = folder / f"hop{number}"
        script.write_text(f"exec {shlex.join([*words, *way, *place])}\n", encoding="utf-8")
        way = ["-o", f"ProxyCommand=/bin/sh {script}"]
    said = overrides(replace(host, jump=None) if way else host)
    return [
        *(ssh, "-v", "-E", str(folder / "log"), "-f", "-N", "-M", "-S", str(folder / "s")),
        *(word for setting in _MASTER for word in ("-o", setting)),
        *_options(folder, hops, len(hops) - 1, asked=asked),
        *(*way, *said, "--", host.address),
    ]


def _options(folder: Path, hops: Sequence[Hop], number: int, *, asked: bool) -> list[str]:
    """What every ssh is told of its hop, besides where that is."""
    hop, moved = hops[number], config_options()
    settings = [
        f"IgnoreUnknown={','.join(filter(None, (_SINCE_8_7, hop.ignored)))}",
        *_PLAIN,
        f"ConnectTimeout={banner_s(hops, number, asked=asked):.0f}",
        f"ServerAliveInterval={hop.alive_interval:.0f}",
        f"ServerAliveCountMax={hop.alive_count}",
        *_of_host_key(folder, hop),
    ]
    if hop.ciphers:
        settings.append(f"Ciphers={','.join(sorted(hop.ciphers, key=lambda cipher: cipher not in FAST_CIPHERS))}")
    if not asked:
        settings.append("BatchMode=yes")
    if hop.identity_named:
        settings.append("IdentitiesOnly=yes")
    agent = named(hop.agent)
    if agent is not None and usable(hop.agent) is None:
        settings.append("IdentityAgent=none")
    elif agent is not None and moved and hop.agent.startswith("~"):
        settings.append(_files("IdentityAgent", agent))
    if moved:
        settings += [_files("CertificateFile", path) for path in hop.certificates]
    keys = hop.identity_files if hop.identity_named or moved else ()
    return [
        *(*moved, "-T", "-a", "-x"),
        *(word for setting in settings for word in ("-o", setting)),
        *(word for key in keys for word in ("-i", str(key).replace("%", "%%"))),
    ]


def _of_host_key(folder: Path, hop: Hop) -> list[str]:
    """Which keys the server may show."""
    # A changed one is refused whatever ssh_config says.
    settings = ["StrictHostKeyChecking=accept-new"] if hop.accept_new else []
    if hop.host_key is not None:
        pinned = folder / "known_hosts"
        pinned.write_text(f"{hop.known_as} {hop.host_key}\n", encoding="utf-8")
        return [
            "GlobalKnownHostsFile=/dev/null",
            "StrictHostKeyChecking=yes",
            _files("UserKnownHostsFile", pinned),
            "UpdateHostKeys=no",
        ]
    if config_options():
        settings.append(_files("UserKnownHostsFile", *hop.known_hosts))
    return settings


def _files(keyword: str, *paths: Path) -> str:
    """A setting that names files, quoted as ssh_config has it; %% is a percent sign there."""
    escaped = (str(path).replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"') for path in paths)
    return f"{keyword}=" + " ".join(f'"{path}"' for path in escaped)
