"""Names that an ssh_config treats alike: one `ssh -G` serves all of them, where a process for each costs more than SSH.

What ssh makes of a name depends on the patterns of `Host` that it matches, and on nothing else of it, as long as no
`Match` asks further, nothing is made canonical, and no value has a token such as %h. Where one of these is met, or
anything that is not understood here, every name is asked for by itself.
"""

from __future__ import annotations

import functools
import os
import re
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConnectError

Settings = dict[str, list[str]]  # keyword in lower case -> values, repeated keywords in order
Said = Mapping[str, str]  # options of ssh, each with its value
Stamp = tuple[tuple[str, int, int], ...]

_READ = re.compile(r"^debug1: Reading configuration data (.+)$", re.MULTILINE)
_CUT = 200  # characters, after which ssh cuts off a name in its log
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9._-]*")  # which ssh neither changes nor refuses
# What is asked for has the last word, so that the answers differ in nothing else.
_KEYWORDS = {"-p": "port", "-l": "user"}
_PLAIN_VALUES = {"-p": re.compile(r"[1-9][0-9]{0,3}|[1-5][0-9]{4}"), "-l": re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")}
# Their tokens end in nothing that we read.
_TOKENS_DO_NO_HARM = {"controlpath", "localcommand", "remotecommand"}


class Answers:
    """What ssh makes of names. `ask` gives that for one, with the log of `ssh -v`; `also`: a file that may come."""

    def __init__(self, ask: Callable[[str, Said], tuple[Settings, str]], also: Path) -> None:
        self._ask, self._also = ask, also
        self._lock = threading.Lock()
        self._blocks: Blocks | None = None
        self._of_kind: dict[object, Future[tuple[str, Settings]]] = {}

    def settings_of(self, name: str, said: Said) -> Settings:
        """Raises what `ask` raises."""
        if not self._is_known():
            with self._lock:  # the others wait for the first, which tells what there is to share
                if not self._is_known():
                    return self._first(name, said)
        kind = self._kind(name, said)
        with self._lock:
            known = self._of_kind.get(kind)
            if kind and known is None:
                ours = self._of_kind[kind] = Future[tuple[str, Settings]]()
        if known is not None:
            try:
                asked, settings = known.result()
            except ConnectError:
                return self._ask(name, said)[0]  # in words about itself
            return for_another(settings, asked, name, said)
        return self._asked(kind, ours, name, said) if kind else self._ask(name, said)[0]

    def _is_known(self) -> bool:
        return self._blocks is not None and unchanged(self._blocks)

    def _first(self, name: str, said: Said) -> Settings:
        self._of_kind.clear()
        found = nothing(self._also)
        try:
            settings, log = self._ask(name, said)
            found = blocks(log, self._also) or found
        finally:
            self._blocks = found
        if kind := self._kind(name, said):
            self._of_kind[kind] = Future()
            self._of_kind[kind].set_result((name, settings))
        return settings

    def _asked(self, kind: object, ours: Future[tuple[str, Settings]], name: str, said: Said) -> Settings:
        """`ours` may be no longer that of its kind: the files may have changed meanwhile."""
        try:
            settings, _ = self._ask(name, said)
        except BaseException as error:
            with self._lock:
                if self._of_kind.get(kind) is ours:
                    del self._of_kind[kind]
            ours.set_exception(error)
            raise
        ours.set_result((name, settings))
        return settings

    def _kind(self, name: str, said: Said) -> object:
        """What the answer depends on; None for what has to be asked for by itself."""
        if name in _names(said.get("-J", "")):
            return None
        matched = self._blocks.kind(name) if self._blocks else None
        if matched is None or not all(
            plain.fullmatch(said[option]) for option, plain in _PLAIN_VALUES.items() if option in said
        ):
            return None
        return matched, frozenset(said), said.get("-J")


@dataclass(frozen=True, slots=True)
class Blocks:
    """The parts of the files that ssh has read, as far as they tell names apart.

    `addresses`: the hosts in them that are the answer for others. `stamp`: of which state the files are.
    """

    patterns: frozenset[str]
    addresses: frozenset[str]
    stamp: Stamp
    is_whole: bool = True

    def kind(self, name: str) -> frozenset[str] | None:
        """The patterns that `name` matches: all that ssh makes of it. None for a name that has to be asked for."""
        if not self.is_whole or not _PLAIN.fullmatch(name) or name in self.addresses or not _canonical(name):
            return None
        return frozenset(pattern for pattern in self.patterns if _regex(pattern).fullmatch(name))


def blocks(log: str, also: Path) -> Blocks | None:
    """What `ssh -v` has read by its `log`; None where that is not all that counts. `also` may be read next time."""
    names = files_read(log)
    if names is None:
        return None
    stamp = _stamp([*names, str(also)])
    patterns: set[str] = set()
    addresses: set[str] = set()
    try:
        for name in names:
            for line in Path(name).read_text(encoding="utf-8").splitlines():
                if not _takes(line, patterns, addresses):
                    return None
    except (OSError, ValueError):
        return None
    return Blocks(frozenset(patterns), frozenset(addresses), stamp)


def files_read(log: str) -> list[str] | None:
    """The files that ssh has read by the `log` of `ssh -v`; None where that does not tell all."""
    names = _READ.findall(log)
    return names if log.startswith("OpenSSH_") and all(len(name) < _CUT for name in names) else None


def nothing(also: Path) -> Blocks:
    """No name is treated like another, as far as is known."""
    return Blocks(frozenset(), frozenset(), _stamp([str(also)]), is_whole=False)


def unchanged(found: Blocks) -> bool:
    return tuple(_state(name) for name, _, _ in found.stamp) == found.stamp


def _takes(line: str, patterns: set[str], addresses: set[str]) -> bool:
    """Add what a line of ssh_config says of names; whether it is understood."""
    keyword, _, words = re.sub(r"[\s=]+", " ", line.strip(), count=1).partition(" ")
    keyword = keyword.lower()
    if not keyword or keyword.startswith("#"):
        return True
    if keyword == "host":
        patterns.update(word.removeprefix("!") for word in words.split())
        return not re.search(r"[\"'\\]", words)
    if keyword in ("hostname", "proxyjump"):
        addresses.update(_names(words))
    strange = keyword == "match" or keyword.startswith(("canonical", '"'))
    return not strange and ("%" not in words or keyword in _TOKENS_DO_NO_HARM)


def _names(words: str) -> set[str]:
    """The hosts in an address, or in a list of jump hosts: what ssh says of one of them may be that it is a circle."""
    return set(re.split(r"[\s,@:\[\]\"']+", words.lower()))


def for_another(settings: Settings, asked: str, name: str, said: Said) -> Settings:
    """The answer for `asked` as it is for `name`, which is of the same kind."""
    found = {**settings, **{keyword: [said[option]] for option, keyword in _KEYWORDS.items() if option in said}}
    for keyword in ("host", "hostname"):
        if settings.get(keyword) == [asked]:
            found[keyword] = [name]
    return found


def _stamp(names: list[str]) -> Stamp:
    """Size and time of every file and of the directory it lies in, where another may be included from."""
    return tuple(_state(place) for name in names for place in (name, str(Path(name).parent)))


def _state(name: str) -> tuple[str, int, int]:
    try:
        found = os.stat(name)  # noqa: PTH116 - for every host again, and a Path takes longer than the file system
    except OSError:
        return name, -1, -1
    return name, found.st_size, found.st_mtime_ns


def _canonical(name: str) -> bool:
    """Whether ssh would leave it as it is, were it an address: 10.1 and 010.0.0.1 are others."""
    if not re.fullmatch(r"[0-9a-fx.]+", name):
        return True
    try:
        return socket.inet_ntoa(socket.inet_aton(name)) == name
    except OSError:
        return False


@functools.lru_cache(maxsize=4096)
def _regex(pattern: str) -> re.Pattern[str]:
    """`*` and `?` as in ssh_config."""
    return re.compile("".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern))
