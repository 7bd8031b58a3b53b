"""OpenSSH's sshd as a child of ours, as root or as an ordinary user, with config, keys and log of its own."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

CONFIG = """\
Port {port}
ListenAddress {address}
HostKey "{folder}/host_key"
PidFile "{folder}/sshd.pid"
AuthorizedKeysFile "{folder}/authorized_keys"
AllowUsers {user}
PermitRootLogin prohibit-password
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
UseDNS no
MaxStartups 500
MaxSessions 200
PrintMotd no
PrintLastLog no
PermitUserRC no
AllowTcpForwarding yes
LogLevel VERBOSE
SetEnv "HOME={folder}"
ForceCommand {session}
Subsystem sftp {sftp}
"""
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server")
START_SECONDS = 20.0


@functools.lru_cache(maxsize=1)
def sshd() -> str | None:
    """The sshd that can serve the current user, or None: none installed, account locked, no login shell."""
    found = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
    account = pwd.getpwuid(os.getuid())
    shell = account.pw_shell or "/bin/sh"
    if found is None or not os.access(shell, os.X_OK) or shell.endswith(("/nologin", "/false")):
        return None
    with contextlib.suppress(OSError):  # only root can read it, and only root's sshd looks at it
        for line in Path("/etc/shadow").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(account.pw_name + ":!"):
                return None
    return str(Path(found).resolve())


@functools.lru_cache(maxsize=1)
def version() -> tuple[int, int]:
    """(major, minor) of the sshd; (0, 0) when it does not say."""
    told = subprocess.run([sshd() or "sshd", "-V"], capture_output=True, text=True, check=False)
    match = re.search(r"OpenSSH_(\d+)\.(\d+)", told.stdout + told.stderr)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def free_port(address: str) -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


class OpenSshServer:
    """Serves the program `session`, which runs ``$SSH_ORIGINAL_COMMAND``, on `address`; files in `folder`.

    `settings` (lines of sshd_config, before ours) and `banner` count from the next start on.
    """

    def __init__(self, folder: Path, session: Path, address: str) -> None:
        self._folder, self._session, self._address = folder, session, address
        self._child: subprocess.Popen[bytes] | None = None
        self.log = folder / "sshd.log"
        self.settings: Mapping[str, str] = {}
        self.banner = ""

    def start(self, port: int) -> int:
        """Start on `port`, or on a free one when it is 0; the port.  Raises RuntimeError: sshd's words."""
        if os.getuid() == 0:  # where a distribution's service file would make it
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        deadline = time.monotonic() + START_SECONDS
        while not self._try(chosen := port or free_port(self._address), deadline):
            if port or time.monotonic() > deadline:
                raise RuntimeError(f"sshd did not start on port {chosen}: {self.log.read_text()[-1000:]}")
        return chosen

    def _try(self, port: int, deadline: float) -> bool:
        banner = self._folder / "banner"
        banner.write_text(self.banner, encoding="utf-8")
        config = "".join(f"{name} {value}\n" for name, value in self.settings.items())
        if self.banner:
            config += f'Banner "{banner}"\n'
        ours = CONFIG.format(
            sftp=next(filter(os.path.exists, SFTP_SERVERS), "/none"),  # nothing of ours asks for it
            port=port,
            address=self._address,
            folder=self._folder,
            user=pwd.getpwuid(os.getuid()).pw_name,
            session=shlex.quote(str(self._session)),
        )
        # Of a setting that is there twice, sshd takes the first, but of some (MaxStartups) the last.
        config += "".join(line for line in ours.splitlines(True) if line.split()[0] not in self.settings)
        if version() >= (9, 8):  # it would lock out 127.0.0.1 after a few refused keys
            config += "PerSourcePenalties no\n"
        (self._folder / "sshd_config").write_text(config, encoding="utf-8")
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [sshd() or "sshd", "-D", "-e", "-f", str(self._folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while time.monotonic() < deadline:
            with self.log.open("rb") as said:
                said.seek(before)
                if b"Server listening on" in said.read():
                    return True
            if self._child.poll() is not None:
                return False
            time.sleep(0.003)
        self.stop()
        return False

    def stop(self) -> None:
        """End sshd and its connections."""
        connections = self._connections()
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None
        kill(connections)

    def drop_connections(self) -> None:
        """Kill the processes that serve the present connections, as a crash of theirs would."""
        kill(self._connections())

    def _connections(self) -> list[int]:
        """Descendants of our sshd that are sshd themselves, not the commands that they run."""
        if self._child is None:
            return []
        parents, names = {}, {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                pid, _, rest = stat.read_text(errors="replace").partition(" (")
                names[int(pid)], _, fields = rest.rpartition(") ")
                parents[int(pid)] = int(fields.split()[1])
        found, frontier = [], [self._child.pid]
        while frontier:
            parent = frontier.pop()
            children = [pid for pid in parents if parents[pid] == parent and names[pid].startswith("sshd")]
            found += children
            frontier += children
        return found


def kill(pids: list[int]) -> None:
    """SIGKILL to each of `pids` that still lives."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
