"""CANN where an installation without root puts it: up to 8.3 in ``HOME/Ascend/ascend-toolkit/<version>`` with the link
``latest``, later in ``HOME/Ascend/cann-<version>`` with the link ``cann``; and its acceleration library in ``nnal``."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from . import set_env
from .files import link, write
from .knobs import Knobs

NEW_LAYOUT = (8, 5)
LIBRARIES = ("libhccl.so", "libascendcl.so")
ARCH = f"{platform.machine()}-linux"

INSTALL_INFO = """\
package_name=Ascend-cann-toolkit
version={version}
innerversion=V100R001C23SPC001B235
arch={arch}
os=linux
path={path}
"""

LIGHT_MSPROF = """\
#!/bin/sh
# The light runtime writes CANN's files itself; what it asks of msprof is to be there.
case "$1" in --help) echo "Usage: msprof [--export=<on|off>] [--type=<text|db>] [--output=<path>]" ;; esac
"""


def place(home: Path, version: str) -> Path:
    """The directory of a version of CANN."""
    if _is_new(version):
        return home / "Ascend" / f"cann-{version}"
    return home / "Ascend" / "ascend-toolkit" / version


def install(home: Path, seen: Path, tools: Path | None, knobs: Knobs) -> None:
    """Make ``HOME/Ascend`` what the knobs say; programs see `home` as `seen`.

    A version has the contents of `tools`, or for the light runtime (None) what that looks for.  What the knobs do not
    ask for goes; the rest stays as it is, for the programs that use it.
    """
    wanted = {place(home, version) for version in knobs.cann}
    base = home / "Ascend"
    for there in (*base.glob("cann-*"), *(base / "ascend-toolkit").glob("[0-9]*")):
        if there not in wanted:
            shutil.rmtree(there)
    for version in knobs.cann:
        _version(place(home, version), place(seen, version), version, tools, knobs)
    old = [version for version in knobs.cann if not _is_new(version)]
    new = [version for version in knobs.cann if _is_new(version)]
    _latest(base / "ascend-toolkit" / "latest", old, knobs)
    _latest(base / "cann", new, knobs)
    script = set_env.TOOLKIT.format(home=seen / "Ascend" / "ascend-toolkit" / "latest")
    text = set_env.script(script, _chosen(old, knobs), knobs.set_env_faults) if old else ""
    _present(base / "ascend-toolkit" / "set_env.sh", text, bool(old) and _has_script("ascend-toolkit", knobs))
    _nnal(base / "nnal", seen / "Ascend" / "nnal", knobs)


def _has_script(layout: str, knobs: Knobs) -> bool:
    return knobs.set_env if isinstance(knobs.set_env, bool) else layout in knobs.set_env


def _is_new(version: str) -> bool:
    major, minor = version.split(".")[:2]
    return (int(major), int(minor)) >= NEW_LAYOUT


def _version(toolkit: Path, seen: Path, version: str, tools: Path | None, knobs: Knobs) -> None:
    if tools is None:
        for folder in ("opp", "compiler", "python/site-packages"):
            (toolkit / folder).mkdir(parents=True, exist_ok=True)
        for name in LIBRARIES:
            write(toolkit / "lib64" / name, "")
    else:
        for entry in tools.iterdir():
            if entry.name not in ("bin", "tools", ARCH):
                link(toolkit / entry.name, entry)
    _msprof(toolkit, tools, knobs)
    write(toolkit / "version.cfg", f"# version: 1.0\nruntime_running_version=[{version}:{version}]\n")
    info = INSTALL_INFO.format(version=version, arch=platform.machine(), path=seen)
    write(toolkit / ARCH / "ascend_toolkit_install.info", info)
    text = set_env.script(set_env.TOOLKIT.format(home=seen), version, knobs.set_env_faults)
    write(toolkit / "bin" / "setenv.bash", text)
    if _is_new(version):
        _present(toolkit / "set_env.sh", text, _has_script("cann", knobs))


def _msprof(toolkit: Path, tools: Path | None, knobs: Knobs) -> None:
    beside = Path("tools/profiler/bin/msprof")
    bare, program = toolkit / beside, ".." / beside
    if tools is None:
        write(bare, LIGHT_MSPROF, mode=0o755)
        _present(toolkit / "tools/profiler/profiler_tool/analysis/msprof/msprof.py", "", knobs.msprof_py)
    elif knobs.msprof_py:
        program = tools / "bin" / "msprof"
    else:  # one that is not where its Python part is
        write(bare, (tools / "bin" / "msprof").read_text(encoding="utf-8"), mode=0o755)
    if knobs.msprof:
        link(toolkit / "bin" / "msprof", program)
    else:
        (toolkit / "bin" / "msprof").unlink(missing_ok=True)


def _chosen(versions: Sequence[str], knobs: Knobs) -> str:
    return knobs.cann_latest if knobs.cann_latest in versions else versions[-1]


def _latest(latest: Path, versions: Sequence[str], knobs: Knobs) -> None:
    """The link that stands for one of `versions`."""
    if versions:
        chosen = _chosen(versions, knobs)
        link(latest, Path(f"cann-{chosen}" if _is_new(chosen) else chosen))
    else:
        latest.unlink(missing_ok=True)


def _nnal(nnal: Path, seen: Path, knobs: Knobs) -> None:
    if not knobs.nnal:
        shutil.rmtree(nnal, ignore_errors=True)
        return
    home = Path("atb") / "latest" / "atb" / "cxx_abi_1"
    write(nnal / home / "lib" / "libatb.so", "")
    write(nnal / "atb" / "set_env.sh", set_env.ATB.format(home=seen / home), mode=0o755)


def _present(path: Path, text: str, wanted: bool) -> None:
    if wanted:
        write(path, text, mode=0o755)
    else:
        path.unlink(missing_ok=True)
