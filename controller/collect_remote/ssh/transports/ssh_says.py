"""What the system's `ssh -v` wrote, as the error that it means: one sentence and one thing to do, as with paramiko."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...errors import AuthError, ConnectError, HostKeyError, UnreachableError, one_line
from .. import troubles
from ..host_keys import Known, changed, listed, pinned, revoked, unknown
from ..ssh_config import Hop
from .handshake import HungUp, NoBanner, strange, turned_away
from .openssh_progress import SERVER, reached

_OFFERED = re.compile(r"^debug1: Offering public key: (.*) [A-Z0-9-]+ SHA256:", re.MULTILINE)
_SHOWN = re.compile(r"^debug1: Server host (?:key|certificate): (\S+ SHA256:\S+)", re.MULTILINE)
_OFFENDING = re.compile(r"^Offending \S+ key in (.+):([0-9]+)", re.MULTILINE)
_HEARD = re.compile(r"^debug1: kex_exchange_identification: banner line [0-9]+: (.*)$", re.MULTILINE)
_HUNG_UP = re.compile(r"^kex_exchange_identification: (?:Connection closed by|read: Connection reset)", re.MULTILINE)
_BROKE = re.compile(r"^Connection (?:closed|reset) by (?!UNKNOWN).*$", re.MULTILINE)
# Of ssh's own words those that say less than what came before them.
_IDLE_TALK = re.compile(r"^(?:Connection (?:closed|reset|to)|banner exchange: Connection|kex_exchange_identification)")
_NO_COMPLAINT = re.compile(
    r"^(?:debug[0-9]: |OpenSSH_|Authenticated to |Transferred: |Bytes per second: )|^Warning: Permanently added |"
    r"^Killed by signal "
)
_TO_SIGN = re.compile(r"^debug1: Server accepts key: (.*) [A-Z0-9-]+ SHA256:\S+ .*agent\n(?!debug1)", re.MULTILINE)
_SIGNED_BY = re.compile(r"^debug1: kex_input_ext_info: server-sig-algs=<([^>]+)>", re.MULTILINE)
_CIPHER = re.compile(r"^debug1: kex: server->client cipher: (\S+)", re.MULTILINE)


def agreed(log: str) -> tuple[str | None, str | None]:
    """Version of the server and cipher of the last hop."""
    servers, ciphers = SERVER.findall(log), _CIPHER.findall(log)
    return servers[-1].strip() if servers else None, ciphers[-1] if ciphers else None


def complaint(log: str, hops: Sequence[Hop], waited_s: float, problems: Callable[[Hop], list[str]]) -> ConnectError:
    """`problems`: what is wrong with the keys of a hop; asked only when the login was refused."""
    for tell in (_of_host_key, _of_login, _of_algorithms, _of_network, _of_banner, _of_agent):
        if (error := tell(log, hops, problems)) is not None:
            return error
    words = _last_words(log)
    if hops[0].proxy_command:
        return troubles.PROXY(place=hops[0].place, why=words, command=hops[0].proxy_command)
    return troubles.NO_CONNECTION(place=hops[-1].place, seconds=waited_s, why=words)


_Problems = Callable[[Hop], list[str]]


def _of_host_key(log: str, hops: Sequence[Hop], _: _Problems) -> HostKeyError | None:
    if "Host key verification failed" not in log and "HOST IDENTIFICATION HAS CHANGED" not in log:
        return None
    shown = (_SHOWN.findall(log) or ["a key that ssh does not name"])[-1]
    # Every hop that was reached has shown a key: the last one is the one that was refused.
    hop = hops[min(len(_SHOWN.findall(log)), len(hops)) - 1]
    offending = _OFFENDING.search(log)
    if "REVOKED" in log:
        return revoked(hop, shown, "known_hosts")
    if offending is not None and hop.host_key is not None:
        return changed(hop, shown, pinned(hop))
    if offending is not None:
        place = f"{offending[1]}:{offending[2]}"
        known = next((known for known in listed(hop) if known.place == place), None)
        return changed(hop, shown, known or Known("another key", b"", place))
    return unknown(hop, shown)


def _of_login(log: str, hops: Sequence[Hop], problems: _Problems) -> AuthError | None:
    refused = re.search(r"^(?:(\S+)@(\S+): )?Permission denied \(([^)]*)\)", log, re.MULTILINE)
    if refused is None and "Too many authentication failures" not in log:
        return None
    hop = _last_reached(log, hops)
    names = ", ".join(_OFFERED.findall(log)) or "none"
    why = "".join(f"; {problem}" for problem in problems(hop))
    accepts = f"; it accepts {refused[3].replace(',', ', ')}" if refused and refused[3] != "publickey" else ""
    if refused is None:
        accepts = "; it had enough of so many keys"
    mend = ""
    if (algorithms := _SIGNED_BY.search(log)) and "no mutual signature algorithm" in log:
        why += f"; a key of yours would sign by none of what it takes: {algorithms[1].replace(',', ', ')}"
        mend = f"write `PubkeyAcceptedAlgorithms +{algorithms[1].split(',')[0]}` for it in ~/.ssh/config; "
    error = troubles.LOGIN_REFUSED(
        place=hop.place, keys=names + why + accepts, port=hop.port, user=hop.user, address=hop.address
    )
    error.remedy = f"{mend}{error.remedy}; passwords and second factors are asked for on a terminal"
    return error


def _of_algorithms(log: str, hops: Sequence[Hop], _: _Problems) -> ConnectError | None:
    found = re.search(r"no matching (.*?) found\. Their offer: (\S+)", log)
    if found is None:
        return None
    kind, offer = found.groups()
    words = {"key exchange": "KexAlgorithms", "host key": "HostKeyAlgorithms", "cipher": "Ciphers", "MAC": "MACs"}
    keyword = next((keyword for word, keyword in words.items() if word in kind), "HostKeyAlgorithms")
    names = offer.split(",")
    return troubles.ALGORITHMS(place=hops[-1].place, names=", ".join(names), kind=kind, keyword=keyword, name=names[0])


def _of_network(log: str, hops: Sequence[Hop], _: _Problems) -> ConnectError | None:
    first, last = hops[0], hops[-1]
    if re.search(r"^channel \d+: open failed: ", log, re.MULTILINE) or "stdio forwarding failed" in log:
        why = re.search(r"^channel \d+: open failed: (.*)$", log, re.MULTILINE)
        return troubles.JUMP(place=last.place, why=one_line(why[1]) if why else "forwarding failed")
    if "Could not resolve hostname" in log:
        return troubles.NO_NAME(place=first.place)
    if re.search(r"connect to host .* port \d+: Connection refused", log):
        return troubles.REFUSED(place=first.place)
    if re.search(r"Bad configuration option|: line \d+:|Bad owner or permissions", log):
        return troubles.SSH_CONFIG(of="", why=_last_words(log), config="~/.ssh/config")
    return None


def _of_banner(log: str, hops: Sequence[Hop], _: _Problems) -> UnreachableError | None:
    heard, waited_s = _HEARD.search(log), hops[0].connect_timeout
    heard_of, let_in = reached(log)
    why: NoBanner | HungUp | None = None
    if heard is not None and heard_of < len(hops):
        why = strange(heard[1].strip(), waited_s, ended=True)
    elif "timed out during banner exchange" in log and not hops[0].proxy_command:
        why = strange("", waited_s, ended=False)
    elif _HUNG_UP.search(log) and not hops[0].proxy_command:
        why = strange("", waited_s, ended=True)
    elif (broke := _BROKE.search(log)) and heard_of:
        why = HungUp(f"hung up in the middle of the login: {broke[0]}")
    elif not _HUNG_UP.search(log) and 0 < heard_of == let_in < len(hops):  # we ended it; ssh would still wait
        why = strange("", hops[heard_of].connect_timeout, ended=False)
    return None if why is None else turned_away(hops[min(heard_of, len(hops) - 1)].place, why)


def _of_agent(log: str, hops: Sequence[Hop], _: _Problems) -> AuthError | None:
    waiting = _TO_SIGN.search(log)
    if waiting is None:
        return None
    return troubles.AGENT(place=_last_reached(log, hops).place, name=waiting[1])


def _last_reached(log: str, hops: Sequence[Hop]) -> Hop:
    return hops[min(max(reached(log)[0], 1), len(hops)) - 1]


def _last_words(log: str) -> str:
    """What ssh or one of its helpers complained of last; without a complaint, how far it came."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    complaints = [line for line in lines if not _NO_COMPLAINT.match(line)]
    telling = [line for line in complaints if not _IDLE_TALK.match(line)]
    if telling or complaints:
        return one_line((telling or complaints)[-1])
    steps = [line.partition(": ")[2] for line in lines if line.startswith("debug1: ")]
    return f"ssh came no further than: {one_line(steps[-1])}" if steps else "it said nothing"
