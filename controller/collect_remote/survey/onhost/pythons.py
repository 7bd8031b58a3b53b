"""Which Pythons on this host have torch and torch_npu, told from their files alone: none of them is started."""

import glob
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional, Tuple  # noqa: F401 - used in comments

MOST = 300  # places that are looked at
OLDEST_MINOR = 8  # of Python 3
CONDA_ROOTS = ("miniconda3", "miniforge3", "anaconda3", "mambaforge", "micromamba", "conda", ".conda", "miniconda")
VENVS = ("venv", ".venv", "env", "venvs/*", ".venvs/*", "envs/*", ".virtualenvs/*", "*/venv", "*/.venv")
listed = {}  # type: Dict[str, List[str]]


def entries(folder):
    # type: (str) -> List[str]
    if folder not in listed:
        try:
            listed[folder] = sorted(os.listdir(folder))
        except (IOError, OSError):
            listed[folder] = []
    return listed[folder]


def distribution(folders, name):
    # type: (List[str], str) -> Optional[str]
    """Version of an installed distribution, "unknown" for a package without one, None when there is none.

    The names of the metadata directories tell it: importlib.metadata would take longer than all the rest.
    """
    for folder in folders:
        for entry in entries(folder):
            found = re.match(r"(.+?)(?:-(\d[^-]*)(?:-.*)?)?\.(?:dist|egg)-info$", entry)
            if found and re.sub("[-_.]+", "_", found.group(1)).lower() == name:
                return found.group(2) or "unknown"
    for folder in folders:
        if os.path.isfile(os.path.join(folder, name, "__init__.py")):
            return "unknown"
    return None


def version(name):
    # type: (str) -> Optional[str]
    """The same of this Python."""
    found = distribution(sys.path, name)
    if found is None:
        try:
            from importlib import util

            spec = util.find_spec(name)
            # A directory of that name, of whatever, where this Python starts: it could be imported, and is no package.
            found = "unknown" if spec is not None and spec.origin else None
        except Exception:  # noqa: BLE001 - Python 2.7, or a broken package
            pass
    return found


def prefixes(home, environ):
    # type: (str, Dict[str, str]) -> Iterator[Tuple[str, str]]
    """(kind, directory) of the places where users keep Pythons, the most telling first."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(name):
            yield "active environment", environ[name]
    try:
        with open(os.path.join(home, ".conda", "environments.txt")) as file:
            for line in file.read().splitlines():
                yield "conda environment", line.strip()
    except (IOError, OSError, ValueError):
        pass
    for base in (home, "/opt", "/usr/local"):
        for root in CONDA_ROOTS:
            for place in sorted(glob.glob(os.path.join(base, root, "envs", "*"))):
                yield "conda environment", place
            yield "conda environment", os.path.join(base, root)
    for pattern in VENVS:
        for place in sorted(glob.glob(os.path.join(home, pattern))):
            yield "venv", place
    pyenv = environ.get("PYENV_ROOT") or os.path.join(home, ".pyenv")
    for place in sorted(glob.glob(os.path.join(pyenv, "versions", "*")), reverse=True):
        yield "pyenv version", place
    for place in sorted(glob.glob("/usr/local/python3*"), reverse=True) + ["/usr/local"]:
        yield "Python", place


def with_torch_npu(home, environ):
    # type: (str, Dict[str, str]) -> Iterator[Tuple[str, str]]
    """(kind, program) of every Python in the usual places that has both torch and torch_npu."""
    seen = set()
    for number, (kind, prefix) in enumerate(prefixes(home, environ)):
        if number >= MOST:
            return
        program = os.path.join(prefix, "bin", "python3")
        if prefix in seen or not os.path.isabs(prefix) or not os.access(program, os.X_OK):
            continue
        seen.add(prefix)
        folders = site_packages(prefix)
        if distribution(folders, "torch") and distribution(folders, "torch_npu"):
            yield kind, program


def site_packages(prefix):
    # type: (str) -> List[str]
    """Where a Python that is new enough keeps its packages; what its .pth files add belongs to it."""
    found = []
    for folder in glob.glob(os.path.join(prefix, "lib*", "python3.*", "site-packages")):
        minor = re.search(r"/python3\.(\d+)/site-packages$", folder)
        if minor is None or int(minor.group(1)) < OLDEST_MINOR:
            continue
        found.append(folder)
        for name in entries(folder):
            if name.endswith(".pth"):
                found += added(folder, name)
    return found


def added(folder, name):
    # type: (str, str) -> List[str]
    try:
        with open(os.path.join(folder, name)) as file:
            lines = [os.path.join(folder, line.strip()) for line in file.read().splitlines() if line.strip()]
    except (IOError, OSError, ValueError):
        return []
    return [line for line in lines if os.path.isdir(line)]
