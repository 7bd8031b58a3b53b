"""All that is installed on a host: Pythons with a runtime, CANN, the driver, the system's programs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from . import environments, python, system, told, toolkit
from .files import write
from .knobs import Knobs

REPOSITORY = Path(__file__).resolve().parents[2]


class Software:
    """The installations of the host in `root`, with `home` and the driver directory `dir`.

    `runtime`, `program` (the interpreter) and `ascend_venv` are what ``SimHost`` says of them; `seen` is where programs
    see `home`, if that is elsewhere.
    """

    def __init__(
        self,
        root: Path,
        home: Path,
        dir: Path,
        runtime: str | None,
        program: str,
        ascend_venv: Path,
        seen: Path | None = None,
    ) -> None:
        self._root, self._home, self._dir, self._seen = root, home, dir, seen or home
        self._runtime, self._program, self._ascend_venv = runtime, program, ascend_venv
        self._environments: tuple[str, ...] = ()
        self.usr_local = dir.parent / "usr-local"

    def find(self) -> None:
        """Find the host's Python and what makes its runtime, and clear away what an earlier host left in `root`."""
        for earlier in (self._root / "lib", self._home / "Ascend"):
            shutil.rmtree(earlier, ignore_errors=True)
        self._base = python.interpreter(self._program)
        self._tools: Path | None = None
        self._path_lines: list[str] = []
        self._distributions: dict[str, str] = {}
        if self._runtime == "torch_npu":
            from . import cann

            built = cann.build(REPOSITORY / ".venv" / "simhost-cann", self._ascend_venv)
            self._tools = built.toolkit_dir
            self._base = python.interpreter(str(self._ascend_venv / "bin" / "python"))
            packages = self._ascend_venv / "lib" / f"python{self._base.version}" / "site-packages"
            self._path_lines = [str(packages), built.pth_line]
        elif self._runtime == "light":
            self._path_lines = [str(python.HERE / "light")]
            self._distributions = {"torch": python.TORCH_VERSION, "torch_npu": python.TORCH_VERSION}

    @property
    def python_prefix(self) -> Path:
        """Where the host's Python, and no venv on it, is installed."""
        return self._base.path.parents[1]

    def apply(self, knobs: Knobs, driver_version: str) -> None:
        """Make the installations say what the knobs say."""
        distributions = {**self._distributions, **knobs.versions}
        places, self._environments = self._environments, tuple(knobs.environments)
        environments.install(
            self._home, self._seen, self._base, self._path_lines, distributions, self._environments, places
        )
        if self._environments:
            python.install(self._root, self._base, [], {})
        else:
            python.install(self._root, self._base, self._path_lines, distributions)
        python.set_kind(self._root, self._base, knobs.python3)
        toolkit.install(self._home, self._seen, self._tools, knobs)
        write(self._dir / "software", told.software(knobs))
        programs = self._root / "bin"
        bare = python.interpreter(sys.executable).path
        npu_smi = python.launcher(bare, "hostside.npu_smi", f"{str(self._dir)!r}, sys.argv[1:]")
        system.npu_smi(programs, self.usr_local, npu_smi, knobs.npu_smi)
        system.driver(self.usr_local, knobs.driver, driver_version)
        system.sudo(programs, knobs.sudo)
        system.hostname(programs, knobs.addresses)
        system.pgrep(programs, python.launcher(bare, "hostside.pgrep", f"{str(self._dir)!r}, sys.argv[1:]"))
        docker = python.launcher(bare, "hostside.docker", f"{str(self._dir)!r}, sys.argv[1:]")
        system.container_engine(programs, docker, knobs.container_engine)
