"""The host's Python: a venv made by hand in a few files, with the runtime's packages on its path."""

from __future__ import annotations

import functools
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .files import link, write

HERE = Path(__file__).resolve().parent
TORCH_VERSION = "2.13.0"


class Interpreter(NamedTuple):
    """A base interpreter, outside any venv, and its ``X.Y``."""

    path: Path
    version: str


@functools.lru_cache(maxsize=None)
def interpreter(executable: str) -> Interpreter:
    """The base interpreter behind `executable`, which may be that of a venv."""
    if executable == sys.executable:
        base = sys._base_executable
        return Interpreter(Path(base).resolve(), "%d.%d" % sys.version_info[:2])
    code = "import sys; print(sys._base_executable, *sys.version_info[:2], sep='\\n')"
    told = subprocess.run([executable, "-IS", "-c", code], capture_output=True, text=True, check=True)
    base, major, minor = told.stdout.splitlines()
    return Interpreter(Path(base).resolve(), f"{major}.{minor}")


def install(root: Path, base: Interpreter, path_lines: list[str], distributions: Mapping[str, str]) -> None:
    """Make `root` a venv on `base`, still without a program: see `set_kind`.

    `path_lines` go into a .pth file: directories, or ``import`` lines that run at start-up.  `distributions` are
    name -> version of packages whose metadata is there.
    """
    write(root / "pyvenv.cfg", f"home = {base.path.parent}\ninclude-system-site-packages = false\n")
    packages = root / "lib" / f"python{base.version}" / "site-packages"
    packages.mkdir(parents=True, exist_ok=True)
    write(packages / "runtime.pth", "".join(line + "\n" for line in path_lines))
    for earlier in packages.glob("*.dist-info"):
        if earlier.name not in {f"{name}-{version}.dist-info" for name, version in distributions.items()}:
            shutil.rmtree(earlier)
    for name, version in distributions.items():
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        write(packages / f"{name}-{version}.dist-info" / "METADATA", text)


def set_kind(root: Path, base: Interpreter, kind: str) -> None:
    """``bin/python3`` as it should be, missing, or old."""
    program = root / "bin" / "python3"
    if kind == "good":
        link(program, base.path)
    elif kind == "old":
        write(program, launcher(base.path, "hostside.old_python", "sys.argv[1:]"), mode=0o755)
    else:
        program.unlink(missing_ok=True)


def launcher(python: Path, module: str, arguments: str) -> str:
    """A shell program that runs ``main(<arguments>)`` of a module of this directory with a bare `python`."""
    setup = f"import sys; sys.path.insert(0, {str(HERE)!r}); from {module} import main"
    code = f"{setup}; sys.exit(main({arguments}))"
    return f'#!/bin/sh\nexec {shlex.quote(str(python))} -IS -c {shlex.quote(code)} "$@"\n'
