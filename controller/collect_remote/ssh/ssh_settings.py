"""What ssh_config says about a name.

`ssh -G` is asked where an `ssh` is installed: it knows Include, Match and every default; once for all names of which it
says the same (`ssh_alike`). Elsewhere paramiko's own parser serves, which does not; what it passes over is named in a
warning.
"""

from __future__ import annotations

import functools
import logging
import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path

from ..errors import ConnectError
from .ssh_alike import Answers, Said, Settings, files_read
from .troubles import SSH_CONFIG

SSH_TIMEOUT_S = 10  # `ssh -G` runs whatever a `Match exec` names

# Our name of a kind of algorithm -> the keyword of ssh_config, in `ssh -G`'s spelling.
ALGORITHMS = {
    "kex": "kexalgorithms",
    "ciphers": "ciphers",
    "keys": "hostkeyalgorithms",
    "pubkeys": "pubkeyacceptedalgorithms",
}
RESTRICTED = "(restricted)"  # no keyword of ssh: the kinds of which ssh_config names some
_FORMER_NAMES = {"pubkeyacceptedkeytypes": "pubkeyacceptedalgorithms"}  # until OpenSSH 8.5
_NAMES_ALGORITHMS = re.compile(rf'(?im)^\s*"?({"|".join([*ALGORITHMS.values(), *_FORMER_NAMES])})\b')
# What the fallback honours, or what makes no difference to us: everything else gets a warning.
_HONOURED = {
    *("host", "match", "hostname", "port", "user", "identityfile", "identitiesonly", "identityagent"),
    *("certificatefile", "proxyjump", "proxycommand", "hostkeyalias", "userknownhostsfile", "globalknownhostsfile"),
    *("stricthostkeychecking", "connecttimeout", "serveraliveinterval", "serveralivecountmax"),
}
_INDIFFERENT = {
    *("addkeystoagent", "batchmode", "checkhostip", "clearallforwardings", "compression", "controlmaster"),
    *("controlpath", "controlpersist", "dynamicforward", "escapechar", "exitonforwardfailure", "fingerprinthash"),
    *("forwardagent", "forwardx11", "forwardx11timeout", "forwardx11trusted", "hashknownhosts", "localcommand"),
    *("localforward", "loglevel", "permitlocalcommand", "remotecommand", "remoteforward", "requesttty", "sendenv"),
    *("setenv", "tcpkeepalive", "updatehostkeys", "usekeychain", "visualhostkey", "xauthlocation"),
}
_OF_THE_LOG = ("Pseudo-terminal", "debug1: ", "OpenSSH_")
_CRITERIA = {"all", "host", "originalhost", "user", "localuser"}
_WITHOUT_PARAMETER = {"all", "canonical", "final"}

log = logging.getLogger(__name__)


def settings_of(name: str, overrides: list[str]) -> Settings:
    """ssh_config for `name`, under `overrides` (options of ssh). ConnectError when it is rejected."""
    ssh = _program(os.environ.get("PATH"))
    if ssh is None:
        return _by_paramiko(name, overrides, user_config())
    return _answers(ssh, *config_options()).settings_of(name, dict(zip(overrides[::2], overrides[1::2], strict=True)))


@functools.lru_cache(maxsize=8)
def _program(path: str | None) -> str | None:
    return shutil.which("ssh", path=path)


@functools.lru_cache(maxsize=8)
def _answers(ssh: str, *options: str) -> Answers:
    def ask(name: str, said: Said) -> tuple[Settings, str]:
        words = [word for option in said.items() for word in option]
        # A name is data, never an option, whatever it begins with.
        result = _asked(ssh, ["-v", *options, *words, "--", name], name)
        if result.returncode:
            raise _rejected(name, result.stderr, user_config())
        settings = _parsed(result.stdout.replace(account_home() + "/.ssh/", "~/.ssh/"))
        restricted = _restricted(settings, _defaults(ssh)) if _some_are_named(files_read(result.stderr)) else []
        return {**settings, RESTRICTED: restricted}, result.stderr

    return Answers(ask, user_config())


def user_config() -> Path:
    return Path("~/.ssh/config").expanduser()


def config_options() -> list[str]:
    """ssh takes its home from the user database and not from $HOME; where they differ, $HOME is meant."""
    if os.path.normpath(account_home()) == os.path.normpath(os.path.expanduser("~")):  # noqa: PTH111 - for every host
        return []
    return ["-F", str(user_config()) if user_config().exists() else os.devnull]


@functools.cache
def account_home() -> str:
    """Where the user database has the home of this user."""
    return pwd.getpwuid(os.getuid()).pw_dir


def restrictions(settings: Settings) -> dict[str, tuple[str, ...]]:
    """The algorithms that ssh_config itself names, by kind; ssh's own defaults restrict nobody."""
    return {kind: tuple(settings[ALGORITHMS[kind]][0].split(",")) for kind in settings.get(RESTRICTED, [])}


def _some_are_named(files: list[str] | None) -> bool:
    """Whether a file of ssh_config may name algorithms: else nobody has to be asked for the defaults."""
    try:
        return files is None or any(
            _NAMES_ALGORITHMS.search(Path(file).read_text(encoding="utf-8", errors="replace")) for file in files
        )
    except OSError:
        return True


def _restricted(settings: Settings, defaults: Settings) -> list[str]:
    return [kind for kind, word in ALGORITHMS.items() if word in settings and settings[word] != defaults.get(word)]


@functools.lru_cache(maxsize=1)
def _defaults(ssh: str) -> Settings:
    return _parsed(_asked(ssh, ["-F", os.devnull, "--", "localhost"], "localhost").stdout)


def _asked(ssh: str, options: list[str], name: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [ssh, "-G", *options],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=SSH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise ConnectError(
            f"`ssh -G {name}` gives no answer within {SSH_TIMEOUT_S} s",
            f"see what `Match exec` in {user_config()} runs",
        ) from error


def _parsed(said: str) -> Settings:
    settings: Settings = {}
    for line in said.splitlines():
        key, _, value = line.partition(" ")
        settings.setdefault(_FORMER_NAMES.get(key, key), []).append(value)
    return settings


def _rejected(name: str, said: str, config: Path) -> ConnectError:
    """Errors of configuration files name a line; others are about what the inventory made us ask for."""
    lines = [line for line in said.strip().splitlines() if not line.startswith(_OF_THE_LOG)]
    why = "; ".join(lines)
    if re.search(r"\bline [0-9]+\b|configuration option", why):
        return SSH_CONFIG(of=f" for {name}", why=why, config=f"{config}, then try `ssh {name}`")
    return ConnectError(
        f"ssh cannot make out how to reach {name!r}: {why}",
        "correct `address`, `user`, `port` or `jump` in the inventory (a jump host is written [user@]host[:port])",
    )


def _by_paramiko(name: str, overrides: list[str], config: Path) -> Settings:
    import paramiko

    # The first value of a keyword holds, and other values are made from it: ours come first.
    keys = {"-p": "Port", "-l": "User", "-J": "ProxyJump"}
    ours = "".join(f"    {keys[key]} {value}\n" for key, value in zip(overrides[::2], overrides[1::2], strict=True))
    try:
        theirs = config.read_text(encoding="utf-8", errors="replace") if config.exists() else ""
        theirs, passed_over = understood(theirs)
        found = paramiko.SSHConfig.from_text(f"Host *\n{ours}\nHost *\n{theirs}").lookup(name)
    except paramiko.ConfigParseError as error:
        raise ConnectError(f"cannot read {config}: {error}", "mend it, or install the ssh client") from error
    if passed_over:
        _warn(f"{config}: without the ssh program, these are not honoured: {', '.join(passed_over)}")
    settings = {key: list(value) if key == "identityfile" else [str(value)] for key, value in found.items()}
    settings.setdefault("identityfile", ["~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"])
    return settings


def understood(text: str) -> tuple[str, list[str]]:
    """An ssh_config without what the fallback would take wrongly; what it passes over, in order, once each.

    paramiko takes a criterion of Match that it does not know for fulfilled: such a block is made to hold for no host.
    """
    kept, passed_over = [], dict[str, None]()
    for line in text.splitlines():
        keyword, _, words = re.sub(r"[\s=]+", " ", line.strip(), count=1).partition(" ")
        if keyword.lower() == "match" and (strange := _strange_criteria(words)):
            passed_over.update(dict.fromkeys(f"{keyword} {word}" for word in strange))
            kept.append("Host !*")
            continue
        if keyword and not keyword.startswith("#") and keyword.lower() not in _HONOURED | _INDIFFERENT:
            passed_over[keyword] = None
        kept.append(line)
    return "\n".join(kept), list(passed_over)


def _strange_criteria(words: str) -> list[str]:
    """The names in a Match line that are none of those that the fallback judges; most take a parameter."""
    names, rest = [], words.replace("=", " ").split()
    while rest:
        name = rest.pop(0).lstrip("!").lower()
        rest = rest if name in _WITHOUT_PARAMETER else rest[1:]
        names.append(name)
        if name not in _CRITERIA:
            break  # its parameter may have blanks
    return [name for name in names if name not in _CRITERIA]


@functools.lru_cache(maxsize=64)
def _warn(message: str) -> None:
    """Once for every message, however often we connect."""
    log.warning(message)
