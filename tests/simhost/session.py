"""What a command finds on the host: the program that the SSH server starts for every session."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from .files import write

SCRIPT = """\
#!/bin/sh
cd {home} || exit 1
umask {umask:04o}
set -- {environment} ${{TERM:+"TERM=$TERM"}} SSH_CLIENT="$SSH_CLIENT" SSH_CONNECTION="$SSH_CONNECTION"
if [ -z "${{SSH_ORIGINAL_COMMAND+set}}" ]; then
    {motd}
    exec {inside}env -i "$@" {shell}
fi
exec {inside}env -i "$@" {shell} -c "$SSH_ORIGINAL_COMMAND"
"""

# Only the session and what it starts see this mount: /usr/local with the host's own in front.
BOUND = """unshare --mount --propagation slave /bin/sh -c \
'mount -t overlay -o "lowerdir=$0:/usr/local" overlay /usr/local && exec "$@"' {local} """

PYTHONS = ("python", "pypy", "py3")  # how the names of their programs begin

# The rc file that a shell reads when sshd starts it for a command, below HOME.  bash does because it finds SSH_CLIENT,
# as distributions build it.  What sh and dash have, they read in interactive and login shells alone.
RC_FILES = {
    "bash": ".bashrc",
    "rbash": ".bashrc",
    "csh": ".cshrc",
    "tcsh": ".tcshrc",
    "zsh": ".zshenv",
    "fish": ".config/fish/config.fish",
}


def login_shell(name: str) -> str:
    """The path of a login shell on this machine.  Raises FileNotFoundError when it is not installed."""
    found = shutil.which(name) or shutil.which(name, path="/bin:/usr/bin:/usr/local/bin")
    if found is None:
        raise FileNotFoundError(f"no {name} on this machine")
    return found


def install(
    script: Path,
    home: Path,
    environment: Mapping[str, str],
    *,
    umask: int,
    shell: str,
    motd: str,
    local: Path | None,
) -> None:
    """Write the session program `script`.

    It starts the login shell in `home` with `environment` and nothing else, as sshd does; a session without a command
    sees the message of the day first.  `local` is what a session has in /usr/local beside the machine's; raises
    PermissionError without a right to mount.
    """
    if local and os.getuid() != 0:
        raise PermissionError("a /usr/local of its own is a mount: it needs root")
    write(
        script,
        SCRIPT.format(
            home=shlex.quote(str(home)),
            umask=umask,
            inside=BOUND.format(local=shlex.quote(str(local))) if local else "",
            environment=" ".join(shlex.quote(f"{name}={value}") for name, value in environment.items()),
            shell=shlex.quote(shell),
            motd=f"printf '%s\\n' {shlex.quote(motd)}" if motd else ":",
        ),
        mode=0o755,
    )


def set_rc(home: Path, shell: str, noise: str, rc: str | bytes) -> None:
    """Write the rc file of `shell`: `noise` printed on both streams, then the lines of `rc`; none when both are empty.

    Raises ValueError for a shell that reads no such file.
    """
    for file in RC_FILES.values():
        if shell not in RC_FILES or file != RC_FILES[shell]:
            (home / file).unlink(missing_ok=True)
    if shell not in RC_FILES:
        if noise or rc:
            raise ValueError(f"{shell} reads no rc file for a remote command")
        return
    lines = rc if isinstance(rc, bytes) else rc.encode()
    if noise:  # in words that every shell understands
        said = home / ".login_noise"
        write(said, noise.rstrip("\n") + "\n")
        lines = f'sh -c \'cat "$0"; cat "$0" >&2\' {shlex.quote(str(said))}\n'.encode() + lines
    if lines:
        write(home / RC_FILES[shell], lines + b"\n")
    else:
        (home / RC_FILES[shell]).unlink(missing_ok=True)


def utilities(folder: Path, without: Sequence[str] = PYTHONS) -> None:
    """Fill `folder` with links to the machine's programs, but for those whose names begin like one of `without`."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in (Path("/usr/bin"), Path("/bin")):
        for program in source.iterdir():
            target = folder / program.name
            if not program.name.startswith(tuple(without)) and not target.is_symlink():
                target.symlink_to(program)
