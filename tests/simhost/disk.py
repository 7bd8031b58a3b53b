"""The work directory of a simulated host, and the file system that it lies on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from . import python
from .files import link


class Disk:
    """A directory `path`, or a link of that name to `storage` if that is given.

    `limits` are the options of a tmpfs of its own; `kind` is one of ``hostside.strange_disk``, or "usual".
    """

    def __init__(self, path: Path, storage: Path | None, limits: Mapping[str, object], kind: str) -> None:
        self.path, self._storage = path, storage or path
        self._content = self._storage if kind == "usual" else self._storage.with_name(self._storage.name + "-behind")
        self._limits = {name: limit for name, limit in limits.items() if limit is not None}
        self._kind = kind
        self._mounted = False
        self._server: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Make it, and mount what has to be.  Raises PermissionError without the right to."""
        for folder in (self._storage, self._content):
            folder.mkdir(parents=True, exist_ok=True)
        if self._storage != self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            link(self.path, self._storage)
        if self._limits:
            self._mount_tmpfs()
        if self._kind != "usual":
            self._serve()

    def stop(self) -> None:
        if self._server is not None:
            subprocess.run(["umount", "-l", str(self._storage)], check=True)
            self._server.kill()
            self._server.communicate()
            self._server = None
        if self._mounted:
            subprocess.run(["umount", "-l", str(self._content)], check=True)
            self._mounted = False

    def _mount_tmpfs(self) -> None:
        options = ",".join(["mode=755", *(f"{name}={limit}" for name, limit in self._limits.items())])
        try:
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self._content)],
                check=True,
                capture_output=True,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise PermissionError("a disk of its own is a tmpfs: it needs root and the right to mount") from error
        self._mounted = True

    def _serve(self) -> None:
        code = f"import sys; sys.path.insert(0, {str(python.HERE)!r}); "
        code += "from hostside.strange_disk import main; sys.exit(main(*sys.argv[1:]))"
        bare = python.interpreter(sys.executable).path
        server = subprocess.Popen(
            [bare, "-IS", "-c", code, self._content, self._storage, self._kind],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert server.stdout is not None
        if server.stdout.readline() != "mounted\n":
            _, problem = server.communicate()
            raise PermissionError(f"a strange disk is a file system in user space, which cannot be here: {problem}")
        self._server = server
