"""Containers of a simulated host that one enters with its container engine."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import container_root, session
from .container_root import PYTHON, WORKDIR, Mount
from .files import link, write
from .hostside import chips, driver, engine
from .knobs import Knobs
from .software import Software

if TYPE_CHECKING:
    from .host import SimHost

PASSWD = """\
root:x:0:0:root:/home/root:/bin/bash
ascend:x:1000:1000:ascend:/home/ascend:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
HOMES = {row.split(":")[at]: row.split(":")[5] for row in PASSWD.splitlines()[:2] for at in (0, 2)}
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MANAGERS = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")


class Container:
    """A container of `host`, with files, pids, a HOME, software and knobs of its own.

    mounts    {path of the host: path inside, or ``path inside:ro``}; nothing else of the host shows inside
    user      whose processes are those that do not say it: "root", "ascend" (1000), or any other uid
    visible   the host's logic ids of its devices, which it counts anew from 0; all unless given

    `runtime`, `python`, `ascend_venv` and knobs are those of ``SimHost``; the knob `env` is that of the image, and
    those of SSH sessions mean nothing here.  `home`, `workdir` and `tmp` are paths inside; :meth:`outside` tells where
    they are on the machine.
    """

    def __init__(
        self,
        host: SimHost,
        name: str,
        *,
        image: str = "quay.io/ascend/vllm-ascend:v0.11.0",
        labels: Mapping[str, str] | None = None,
        mounts: Mapping[str | Path, str] | None = None,
        user: str | int = "root",
        runtime: Literal["light", "torch_npu"] | None = "light",
        visible: Sequence[int] | None = None,
        python: str = sys.executable,
        ascend_venv: Path | None = None,
        **knobs: Any,
    ) -> None:
        if os.getuid() != 0 or not _can_unshare():
            raise PermissionError(
                "a container has namespaces and mounts of its own: it needs root and the right to them"
            )
        self.name, self.image, self.labels, self.user = name, image, dict(labels or {}), str(user)
        self.knobs = Knobs(**knobs)
        self.host, self.chip = host, host.chip
        self.folder = host.root / "containers" / name
        self.dir = self.folder / "driver"
        self.id = hashlib.sha256(str(self.folder).encode()).hexdigest()
        self.home, self.workdir, self.tmp = HOMES.get(self.user, HOMES["root"]), WORKDIR, "/tmp"
        phys = [device.phy for device in host.devices] if visible is None else visible
        self.devices = chips.visible(host.chip, host.devices, list(phys))
        venv = ascend_venv or host.ascend_venv
        self._created = time.time()
        self._needed = [venv] if runtime == "torch_npu" else []
        home = self.folder / "home"
        self._software = Software(self.folder / "image", home, self.dir, runtime, python, venv, Path(self.home))
        self._own = {
            self.folder / "image": PYTHON,
            home: self.home,
            self.folder / "work": WORKDIR,
            self.folder / "tmp": "/tmp",
        }
        self._mounts = [self._mount(Path(source), target) for source, target in (mounts or {}).items()]

    def build(self) -> None:
        """Make its files; the host's list of containers and its state are told by the host."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for folder in (*self._own, self.dir, self.folder / "usr-local", self.folder / "rootfs"):
            folder.mkdir(parents=True)
        (self.folder / "tmp").chmod(0o1777)
        for name in driver.SHARED:
            link(self.dir / name, self.host.dir / name)
            (self.host.dir / name).chmod(0o777)
        write(self.folder / "passwd", PASSWD)
        self._software.find()
        self.apply()
        for path in self._own:
            _give(path, self._uid())
        container_root.write_script(
            self.folder,
            self.id[:12],
            self._own,
            [self.dir, *(self.host.dir / name for name in driver.SHARED)],
            self._mounts,
            [*self._needed, self._software.python_prefix],
            self.device_files(),
        )

    def apply(self) -> None:
        """Make its software say what the knobs say."""
        self._software.apply(self.knobs, self._driver_version())
        for mount in self._mounts:
            if mount.target.startswith("/usr/local/"):  # which is read-only: the place for it is made here
                (self._software.usr_local / mount.target[len("/usr/local/") :]).mkdir(parents=True, exist_ok=True)
        if self.knobs.python3 == "missing":
            session.utilities(self.folder / "image" / "usr-bin")

    def start(self) -> None:
        """What ``docker start`` does.  Raises RuntimeError when it cannot run."""
        engine.start(self.facts())

    def stop(self) -> None:
        """What ``docker stop`` does: all its processes end."""
        engine.stop(self.facts())

    @property
    def running(self) -> bool:
        return bool(engine.running(self.facts()))

    @property
    def pid(self) -> int:
        """Its first process, by the number that the host sees; 0 when it does not run."""
        return engine.running(self.facts())

    def processes(self) -> list[int]:
        """The host's pids of the live processes that were started inside, but for the container's first one."""
        return driver.processes(str(self.dir))

    def set_state(self, **changes: Any) -> None:
        """Change its :class:`Knobs`; programs started from now on see them."""
        self.knobs = dataclasses.replace(self.knobs, **changes)
        self.apply()
        self.host.tell()

    def outside(self, path: str) -> Path:
        """Where a path inside is on the machine.  Raises ValueError for one that is neither its own nor mounted."""
        places = [(mount.target, mount.source) for mount in self._mounts]
        places += [(target, source) for source, target in self._own.items()]
        for target, source in sorted(places, key=lambda place: -len(place[0])):
            if Path(path).is_relative_to(target):
                return source / Path(path).relative_to(target)
        raise ValueError(f"{path} is none of the container's own")

    def device_files(self) -> list[str]:
        """The device nodes that it was given."""
        return [*(f"/dev/davinci{device.phy}" for device in self.devices), *MANAGERS]

    def facts(self) -> dict[str, Any]:
        """What the engine knows of it, as plain data (see ``hostside.engine``)."""
        programs = f"{PYTHON}/bin"
        path = f"{programs}:{PYTHON}/usr-bin" if self.knobs.python3 == "missing" else f"{programs}:{SYSTEM_PATH}"
        environment = {"PATH": path, "SIMHOST": str(self.dir), **self.knobs.env}
        return {
            "id": self.id,
            "name": self.name,
            "folder": str(self.folder),
            "image": self.image,
            "labels": self.labels,
            "user": "" if self.user == "root" else self.user,
            "env": [f"{name}={value}" for name, value in environment.items()],
            "workdir": WORKDIR,
            "command": ["sleep", "infinity"],
            "created": self._created,
            "devices": self.device_files(),
            "mounts": [mount.shown() for mount in self._mounts],
        }

    def _mount(self, source: Path, target: str) -> Mount:
        """A bind mount as given to ``-v``: ``{source: "target"}`` or ``{source: "target:ro"}``."""
        target, _, mode = target.partition(":")
        seen = source
        if source.is_relative_to("/usr/local"):  # of the host's own /usr/local
            source = self.host.usr_local / source.relative_to("/usr/local")
        if not source.exists():
            source.mkdir(parents=True)  # as docker does
        return Mount(source, target, mode != "ro", str(seen))

    def _uid(self) -> int:
        row = next((row.split(":") for row in PASSWD.splitlines() if self.user in row.split(":")[:3:2]), None)
        return int(row[2]) if row else int(self.user)

    def _driver_version(self) -> str:
        return self.knobs.driver_version or self.host._driver_version()


@functools.lru_cache(maxsize=1)
def _can_unshare() -> bool:
    command = ["unshare", "--mount", "--uts", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _give(folder: Path, uid: int) -> None:
    """Let the user of the container own its files."""
    if uid:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)
