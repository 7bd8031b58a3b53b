"""Pythons of the user: environments of conda, venvs, versions of pyenv, as far as one finds and starts them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import python
from .files import link, write

ACTIVATE = """\
export VIRTUAL_ENV={place}
export PATH="$VIRTUAL_ENV/bin:$PATH"
"""
CONDA_SH = """\
conda() {{
    [ "$1" = activate ] || return 0
    export CONDA_DEFAULT_ENV="${{2:-base}}" CONDA_PREFIX="{root}/envs/$2"
    export PATH="$CONDA_PREFIX/bin:$PATH"
}}
"""


def install(
    home: Path,
    seen: Path,
    base: python.Interpreter,
    path_lines: list[str],
    distributions: Mapping[str, str],
    places: Sequence[str],
    earlier: Sequence[str],
) -> None:
    """Make the environments at `places` below `home`, each with the runtime, in place of the `earlier` ones.

    Programs see `home` as `seen`.
    """
    for gone in set(earlier) - set(places):
        shutil.rmtree(home / gone.split("/")[0], ignore_errors=True)
    for place in places:
        there = home / place
        _venv(there, base, path_lines, distributions)
        if "/envs/" in place:
            root = place.partition("/envs/")[0]
            _conda(home / root, seen / root, there, base)
        elif not place.startswith(".pyenv/"):
            write(there / "bin" / "activate", ACTIVATE.format(place=seen / place))


def _conda(root: Path, seen: Path, environment: Path, base: python.Interpreter) -> None:
    """What makes `root` an installation of conda, with a Python of its own that has no runtime."""
    _venv(root, base, [], {})
    write(root / "etc" / "profile.d" / "conda.sh", CONDA_SH.format(root=seen))
    write(root / "conda-meta" / "history", "")
    write(environment / "conda-meta" / "history", "")


def _venv(root: Path, base: python.Interpreter, path_lines: list[str], distributions: Mapping[str, str]) -> None:
    python.install(root, base, path_lines, distributions)
    python.set_kind(root, base, "good")
    for name in ("python", f"python{base.version}"):
        link(root / "bin" / name, Path("python3"))
