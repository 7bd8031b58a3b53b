"""A simulated Ascend host: one directory, one SSH server on loopback, real processes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pwd
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from . import keys, openssh, session, told
from .containers import Container
from .disk import Disk
from .files import link, write
from .hostside import chips, driver
from .knobs import Knobs
from .software import Software
from .uses import Use, read_uses

REPOSITORY = Path(__file__).resolve().parents[2]
ADDRESS = "127.0.0.1"


class SimHost:
    """A host that answers on ``address:port`` between :meth:`start` and :meth:`stop`, or inside ``with``.

    Linux only.  Keyword arguments beyond the named ones are :class:`Knobs`.

    root          directory of the host; made when missing, left behind; keys found in it are kept
    chip, npus    a name of ``hostside.chips.CHIPS``, and how many NPUs, unless as many as usual for that chip (8 of
                  910B3); an NPU of some has several devices
    container_of  a host on whose NPUs this one is an ordinary container: it has that chip, the devices with the
                  host's logic ids `visible` (all unless given), which it counts anew from 0, and a HOME,
                  a server and processes of its own
    runtime       what ``import torch_npu`` gives on the host: a stand-in in pure Python, the real one on
                  simulated CANN libraries (kernel times are invented in both), or None: not installed
    python        the host's interpreter, 3.8 to 3.13; that of a venv stands for its base
    server        ``openssh``, ``asyncssh``, or what the machine has
    ascend_venv   the venv with torch, torch_npu and the Python of the runtime ``torch_npu``
    workdir       name of the work directory in `root`
    workdir_link  whether that is a symbolic link to another directory
    disk_mb, disk_inodes   size of the file system below the work directory, and how many files and directories it
                  can hold; need the right to mount
    disk          how the work directory is strange, as network file systems are: its files belong to nobody whoever
                  made them ("squashed"), everybody may write to them ("open"), renaming or locking fails; needs the
                  right to mount and /dev/fuse
    """

    def __init__(
        self,
        root: Path,
        *,
        name: str = "ascend01",
        chip: str = "910B3",
        npus: int | None = None,
        container_of: SimHost | None = None,
        visible: Sequence[int] | None = None,
        runtime: Literal["light", "torch_npu"] | None = "light",
        python: str = sys.executable,
        server: Literal["auto", "openssh", "asyncssh"] = "auto",
        port: int = 0,
        ascend_venv: Path = REPOSITORY / ".venv" / "ascend",
        workdir: str = "work",
        workdir_link: bool = False,
        disk_mb: int | None = None,
        disk_inodes: int | None = None,
        disk: Literal["usual", "squashed", "open", "no-rename", "no-locks"] = "usual",
        **knobs: Any,
    ) -> None:
        self.name = name
        self.chip = container_of.chip if container_of else chip
        self.runtime = runtime
        self.knobs = Knobs(**knobs)
        self.address = ADDRESS
        self.port = port
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self.root = root.resolve()
        self.home = self.root / "home"
        self.workdir = self.root / workdir
        self.dir = self.root / "driver"
        self.identity_file = self.root / "client" / "id_ed25519"
        self.known_hosts = self.root / "client" / "known_hosts"
        self._host = container_of
        self._containers: list[SimHost | Container] = []
        if container_of:
            phys = [device.phy for device in container_of.devices]
            self.devices = chips.visible(self.chip, container_of.devices, phys if visible is None else visible)
        else:
            self.devices = chips.devices(chip, npus)
        limits = {"size": disk_mb and f"{disk_mb}m", "nr_inodes": disk_inodes}
        self._disk = Disk(self.workdir, self.root / "storage" if workdir_link else None, limits, disk)
        self.ascend_venv = ascend_venv
        self.host_key_file = self.root / "ssh" / "host_key"
        self._software = Software(self.root, self.home, self.dir, runtime, python, ascend_venv)
        self._ssh = self.root / "ssh"
        self._running = False
        self._server = _server(server)(self._ssh, self.session, ADDRESS)
        self.log: Path = self._server.log

    def __enter__(self) -> SimHost:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> SimHost:
        """Build what is missing and serve it.  Raises RuntimeError when the server does not start."""
        for folder in (self.home, self.dir, self._ssh, self.identity_file.parent):
            folder.mkdir(parents=True, exist_ok=True)
        self._share_devices()
        self._client_key = keys.stored(self.identity_file, keys.client_pair())
        self._host_key = keys.stored(self.host_key_file, keys.generate(self.knobs.host_key_kind))
        self._other_key = keys.generate().public
        self._software.find()
        self._apply()
        try:
            self._disk.start()
            self._serve()
        except BaseException:
            self.stop()
            raise
        self._running = True
        return self

    def stop(self) -> None:
        """End the server and every process that was born in its sessions."""
        self._server.stop()
        self._running = False
        for container in self._boxes():
            container.stop()
        while left := self.processes():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)
        if self._host is not None and self in self._host._containers:
            self._host._containers.remove(self)
            self.tell()
        self._containers = [other for other in self._containers if other not in self._boxes()]
        self._disk.stop()

    @property
    def host_key(self) -> str:
        """The announced host key, ``ssh-ed25519 AAAA...``."""
        return self._host_key if self.knobs.announce_own_key else self._other_key

    @property
    def session(self) -> Path:
        """The program that the SSH server starts for every session; it runs $SSH_ORIGINAL_COMMAND."""
        return self._ssh / "session"

    def inventory_entry(self) -> dict[str, Any]:
        """How a client reaches the host, as plain data."""
        return {
            "address": self.address,
            "port": self.port,
            "user": self.user,
            "identity_file": str(self.identity_file),
            "host_key": self.host_key,
            "workdir": str(self.workdir),
        }

    def processes(self) -> list[int]:
        """Pids of the live processes born in the host's sessions, those that left their session included.

        What was started in a container of its engine counts as well, and has the pids that the host sees.
        """
        own = driver.processes(str(self.dir))
        return sorted(own + [pid for container in self._boxes() for pid in container.processes()])

    def held(self) -> dict[int, dict[int, int]]:
        """Which process of the host and its containers holds which device: pid -> the host's logic id -> MB."""
        return driver.holders(str(self.dir))

    def uses(self) -> list[Use]:
        """Every time that a process of the host or its containers opened a device, in that order."""
        return read_uses(self.dir / "use.log")

    def set_state(self, **changes: Any) -> None:
        """Change :class:`Knobs` while the host runs; sessions and programs started from now on see them."""
        self.knobs = dataclasses.replace(self.knobs, **changes)
        self._apply()
        if self._running:
            self._announce()

    def container(self, name: str, *, running: bool = True, **options: Any) -> Container:
        """A container of this host, which must be up; it ends with it.  Options are those of :class:`Container`.

        Raises PermissionError without the right to make namespaces.
        """
        container = Container(self, name, **options)
        container.build()
        self._containers.append(container)
        self.tell()
        if running:
            container.start()
        return container

    @property
    def usr_local(self) -> Path:
        """What sessions have in /usr/local beside the machine's, with the knobs that put something there."""
        return self._software.usr_local

    def _boxes(self) -> list[Container]:
        """The containers of the engine of this host."""
        return [container for container in self._containers if isinstance(container, Container)]

    def drop_connections(self) -> None:
        """Cut every present connection; the processes of the sessions are left alone."""
        self._server.drop_connections()

    def kill_server(self) -> None:
        """Kill the server with its connections; the processes of the sessions are left alone."""
        self._server.stop()

    def restart_server(self) -> None:
        """Start the server again on the same port, after :meth:`kill_server` or in place of the one that runs."""
        self._server.stop()
        self._serve()

    def _serve(self) -> None:
        self._server.settings, self._server.banner = self.knobs.sshd, self.knobs.banner
        self.port = self._server.start(self.port)
        self._announce()

    def _share_devices(self) -> None:
        """What tells who uses a device: of its own, or the host's in a container."""
        if self._host is not None and self not in self._host._containers:
            self._host._containers.append(self)
        for name in driver.SHARED:
            if self._host is not None:
                link(self.dir / name, self._host.dir / name)
            elif name.endswith(".log"):
                (self.dir / name).touch()
            else:
                (self.dir / name).mkdir(exist_ok=True)

    def _apply(self) -> None:
        """Make the files of the host say what the knobs say."""
        knobs = self.knobs
        programs = self.root / "bin"
        self._software.apply(knobs, self._driver_version())
        local = self.usr_local if knobs.npu_smi == "outside" or knobs.driver else None
        self._install_session(programs, local)
        self.tell()
        accepted = [self._client_key] * knobs.accept_key + list(knobs.authorized_keys)
        write(self._ssh / "authorized_keys", "".join(f"{line}\n" for line in accepted), mode=0o600)

    def _install_session(self, programs: Path, local: Path | None) -> None:
        """The account: its login shell with an rc file, and the environment that every session begins with."""
        knobs = self.knobs
        path = f"{programs}:/usr/bin:/bin"
        if without := self._missing():  # nor may the machine's own show
            utilities = self.root / "-".join(("usr-bin-without", *without))
            session.utilities(utilities, without)
            path = f"{programs}:{utilities}"
        shell = session.login_shell(knobs.login_shell)
        environment = {
            "HOME": str(self.home),
            "USER": self.user,
            "LOGNAME": self.user,
            "SHELL": shell,
            "PATH": path,
            "SIMHOST": str(self.dir),
            **knobs.env,
        }
        session.set_rc(self.home, knobs.login_shell, knobs.login_noise, knobs.rc)
        session.install(
            self.session, self.home, environment, umask=knobs.umask, shell=shell, motd=knobs.motd, local=local
        )

    def _missing(self) -> list[str]:
        """How the names of the machine's programs begin that the host does not have."""
        return [*session.PYTHONS] * (self.knobs.python3 == "missing") + ["bash"] * (not self.knobs.bash)

    def _driver_version(self) -> str:
        of_host = self._host._driver_version() if self._host else chips.CHIPS[self.chip].driver
        return self.knobs.driver_version or of_host

    def tell(self) -> None:
        """Make npu-smi and the runtimes, of this host and of its containers, say what all their knobs say."""
        root = self._host or self
        places = {host: told.Place(host.devices, host.knobs) for host in (root, *root._containers)}
        for host, place in places.items():
            version = host._driver_version()
            said = told.said(place, places[root])
            jobs = told.jobs(place, places[root], list(places.values()))
            state = {
                "chip": host.chip,
                "driver_version": version,
                "tool_version": host.knobs.tool_version or version,
                "container": host is not root,
                "devices": [tuple(device) for device in host.devices],
                "said": said,
                "jobs": jobs,
                "npu_smi": told.answers(host.knobs),
            }
            write(host.dir / "state", repr(state) + "\n")
            write(host.dir / "devices", driver.format_devices(told.runtime_devices(place, said, jobs)))
        write(root.dir / "containers", repr(told.engine(root.knobs, [box.facts() for box in root._boxes()])) + "\n")

    def _announce(self) -> None:
        write(self.known_hosts, f"[{self.address}]:{self.port} {self.host_key}\n")


def _server(kind: str) -> Any:
    """The class of a server of `kind`."""
    if kind == "openssh" or (kind == "auto" and openssh.sshd() is not None):
        return openssh.OpenSshServer
    from .asyncssh_server import AsyncSshServer  # asyncssh takes its time to import

    return AsyncSshServer
