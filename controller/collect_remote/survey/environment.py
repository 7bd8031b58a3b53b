"""The environment that the survey captured on the host: how it is given to the run exactly, and how it may be shown.

It may hold secrets: it goes into scripts on standard input only, never into arguments, logs, events or results.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from fnmatch import fnmatchcase

# A session may have set -e, -u or -x by SHELLOPTS, a sourced script by itself.
PLAIN_SHELL = "set +eufvxC; umask 027"
# The shell's own, and what belongs to one connection: they stay as a session has them.
SESSION = (
    *("_", "SHLVL", "PWD", "OLDPWD", "IFS", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO", "UID", "EUID", "PPID"),
    *("SSH_*", "XDG_SESSION_*"),
)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRET = re.compile(
    r"PASS(?!IVE)|PWD|SECRET|TOKEN|CREDENTIAL|COOKIE|PRIVATE|AUTH|SIGNATURE|SALT|_SAS$|(^|_|API|ACCESS|LICENSE)KEYS?(_|$)"
    r"|_(AK|SK|PAT|DSN|JWT)$",
    re.IGNORECASE,
)
USER_IN_URL = re.compile(r"(?<=://)[^/\s@]+(?=@)")
MASK = "***"


def kept(found: Mapping[str, str]) -> dict[str, str]:
    """What of a captured environment is given to the run: every variable that a shell can export and may change."""
    return {
        name: value
        for name, value in sorted(found.items())
        if NAME.fullmatch(name) and not any(fnmatchcase(name, pattern) for pattern in SESSION)
    }


def restore(environment: Mapping[str, str]) -> str:
    """Shell lines after which exactly these variables are exported, besides those of the session itself."""
    stay = "|".join((*SESSION, *environment))
    return "\n".join(
        (
            PLAIN_SHELL,
            f'for name in $(compgen -e); do case $name in {stay}) ;; *) unset -v "$name" 2>/dev/null ;; esac; done',
            *(f"export {name}={quoted(value)}" for name, value in environment.items()),
        )
    )


def quoted(value: str) -> str:
    """A value as a shell word; bytes that are no UTF-8 came as surrogates and go back as what they were."""
    if value.isascii() or not re.search("[\udc80-\udcff]", value):
        return shlex.quote(value)
    return "$'" + "".join(f"\\x{byte:02x}" for byte in value.encode("utf-8", "surrogateescape")) + "'"


def masked(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment as it may be shown: values of names that look secret, and users in URLs, are hidden."""
    return {
        name: MASK if SECRET.search(name) else USER_IN_URL.sub(MASK, value.encode("utf-8", "replace").decode())
        for name, value in environment.items()
    }
