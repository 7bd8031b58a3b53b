"""What a command finds on the host: the program that the SSH server starts for every session."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from .files import write

SCRIPT = """\
#!/bin/sh
cd {home} || exit 1
umask {umask:04o}
set -- {environment} ${{TERM:+"TERM=$TERM"}} SSH_CLIENT="$SSH_CLIENT" SSH_CONNECTION="$SSH_CONNECTION"
if [ -z "${{SSH_ORIGINAL_COMMAND+set}}" ]; then
    exec {inside}env -i "$@" /bin/sh
fi
exec {inside}env -i "$@" /bin/sh -c {rc}"$SSH_ORIGINAL_COMMAND"
"""

# Only the session and what it starts see this mount: /usr/local with the host's own in front.
BOUND = """unshare --mount --propagation slave /bin/sh -c \
'mount -t overlay -o "lowerdir=$0:/usr/local" overlay /usr/local && exec "$@"' {local} """


def install(
    script: Path, home: Path, environment: Mapping[str, str], umask: int, noise: str, local: Path | None
) -> None:
    """Write the session program `script`.

    It starts the login shell in `home` with `environment` and nothing else.  `noise` comes from the account's
    rc file, which the shell of a remote command reads first, as bash does when sshd starts it.
    `local` is what a session has in /usr/local beside the machine's; raises PermissionError without a right to mount.
    """
    if local and os.getuid() != 0:
        raise PermissionError("a /usr/local of its own is a mount: it needs root")
    rc = home / ".bashrc"
    if noise:
        said = shlex.quote(noise.rstrip("\n"))
        write(rc, f"printf '%s\\n' {said}\nprintf '%s\\n' {said} >&2\n")
    else:
        rc.unlink(missing_ok=True)
    write(
        script,
        SCRIPT.format(
            home=shlex.quote(str(home)),
            umask=umask,
            inside=BOUND.format(local=shlex.quote(str(local))) if local else "",
            environment=" ".join(shlex.quote(f"{name}={value}") for name, value in environment.items()),
            rc=shlex.quote(f". {shlex.quote(str(rc))}\n") if noise else "",
        ),
        mode=0o755,
    )


def utilities(folder: Path) -> None:
    """Fill `folder` with links to the machine's programs, without its Pythons."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in (Path("/usr/bin"), Path("/bin")):
        for program in source.iterdir():
            target = folder / program.name
            if not program.name.startswith(("python", "pypy", "py3")) and not target.is_symlink():
                target.symlink_to(program)
