"""A connection by the system's `ssh`: one master that has logged in, and one small client of it for every command.

The master is what `ssh -f` leaves behind, in a session of its own: a Ctrl-C of ours does not reach it. Its control
socket lies in a private directory. A guard, which notices that we are gone however that happened, ends the master and
removes the directory; should the guard be killed as well, the master leaves by itself once it is idle.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ...errors import ConnectError
from ...inventory import Host
from .. import troubles
from ..doors import all_doors
from ..ssh_config import Hop, route
from . import Login, Lost
from .handshake import patiently
from .openssh_channels import OpenSshChannel, OpenSshPour
from .openssh_command import login
from .openssh_progress import Progress
from .ssh_says import agreed, complaint

LONGEST_FOLDER = 60  # characters; a socket's path has at most 104, of which ssh needs 20 for a name in between
LOOK_S = 0.2  # from one look at the log of a login to the next
_PLAIN_PATH = re.compile(r"[\w./+@=-]+", re.ASCII)
GUARD = 'read -r _; "$1" -F /dev/null -S "$2/s" -O exit x >/dev/null 2>&1; rm -rf "$2"'


def connect(host: Host) -> OpenSshConnection:
    """Connect through every jump host. ConnectError with the cause; nothing stays open then."""
    ssh = shutil.which("ssh")
    if ssh is None:
        raise ConnectError(
            f"{host.name}: `transport: openssh` needs the ssh program, and there is none here",
            "install OpenSSH's client, or take the transport out of the inventory",
        )
    hops = route(host)
    for path in hops[-1].identity_files if hops[-1].identity_named else ():
        if not path.is_file() and not path.with_name(path.name + ".pub").is_file():
            raise troubles.IDENTITY(host=host.name, why=f"{path} cannot be read: No such file or directory")
    return patiently(lambda: OpenSshConnection(ssh, host, hops))


class OpenSshConnection:
    """A master and its guard."""

    def __init__(self, ssh: str, host: Host, hops: list[Hop]) -> None:
        self.login = Login("openssh", hops[-1].user)
        self._ssh = ssh
        self._folder = _private_folder()
        self._guard = _guard(ssh, self._folder)
        try:
            with all_doors(hops):
                self._log_in(host, hops)
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        with socket.socket(socket.AF_UNIX) as knock:
            knock.settimeout(1.0)
            try:
                knock.connect(str(self._folder / "s"))
            except OSError:
                return False
        return True

    def start(self, command: str) -> OpenSshChannel:
        return OpenSshChannel(self._client(command))

    def pour(self, command: str, file: int) -> OpenSshPour:
        return OpenSshPour(self._client(command), file)

    def _client(self, command: str) -> list[str]:
        """What runs `command`. Lost when there is no master."""
        if not self.is_open:
            raise Lost("ssh has ended the connection")
        # Without its master, the client would log in by itself: to nowhere.
        never = ("-o", "ControlMaster=no", "-o", "ProxyCommand=false")
        options = ["-F", os.devnull, "-S", str(self._folder / "s"), "-T", *never]
        return [self._ssh, *options, "--", "x", command]

    def close(self) -> None:
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        try:
            self._guard.wait(5.0)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _log_in(self, host: Host, hops: list[Hop]) -> None:
        asked = sys.stdin is not None and sys.stdin.isatty()
        command, log = login(self._ssh, self._folder, host, hops, asked=asked), self._folder / "log"
        began = time.monotonic()
        status = _ended(command, log, Progress(hops, asked=asked), own_session=not asked)
        said = _text(log)
        self.login.total_s = time.monotonic() - began
        if status != 0:
            error = complaint(said, hops, self.login.total_s, _problems)
            raise error from error.__cause__
        self.login.server, self.login.cipher = agreed(said)


def _private_folder() -> Path:
    """A directory that only we can enter. Its path has room for a socket, and nothing in it wants quoting."""
    usual = tempfile.gettempdir()
    fits = len(usual) <= LONGEST_FOLDER and _PLAIN_PATH.fullmatch(usual)
    return Path(tempfile.mkdtemp(prefix="collect-", dir=usual if fits else "/tmp"))  # noqa: S108


def _guard(ssh: str, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", GUARD, "guard", ssh, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _ended(command: list[str], log: Path, progress: Progress, *, own_session: bool) -> int:
    """Run the login to its end, its complaints and those of its helpers into `log`; its exit status.

    Whoever can be asked something needs the terminal, so that login stays in our session.
    """
    with log.open("ab") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=own_session
        )
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK_S)
            if progress.is_overdue(_text(log)):
                return 255
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(2.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _problems(hop: Hop) -> list[str]:
    """What is wrong with the key files of a hop; only now, because reading them takes an import of its own."""
    from ..key_files import NeedsPassphrase, Unusable, private_key

    found = []
    for path in hop.identity_files:
        try:
            private_key(path)
        except NeedsPassphrase as problem:
            found.append(problem.why)
        except Unusable:  # by us; ssh may be able to
            pass
    return found


def _text(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
