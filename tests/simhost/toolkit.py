"""CANN in the usual place of an installation without root: ``HOME/Ascend/ascend-toolkit``."""

from __future__ import annotations

import platform
from pathlib import Path

from .files import link, write

VERSION = "8.3.RC1"

SET_ENV = """\
export ASCEND_TOOLKIT_HOME={latest}
export LD_LIBRARY_PATH=${{ASCEND_TOOLKIT_HOME}}/lib64/plugin/opskernel:$LD_LIBRARY_PATH
export LD_LIBRARY_PATH=${{ASCEND_TOOLKIT_HOME}}/lib64:$LD_LIBRARY_PATH
export PYTHONPATH=${{ASCEND_TOOLKIT_HOME}}/python/site-packages:$PYTHONPATH
export PATH=${{ASCEND_TOOLKIT_HOME}}/bin:${{ASCEND_TOOLKIT_HOME}}/compiler/ccec_compiler/bin:$PATH
export ASCEND_AICPU_PATH=${{ASCEND_TOOLKIT_HOME}}
export ASCEND_OPP_PATH=${{ASCEND_TOOLKIT_HOME}}/opp
export TOOLCHAIN_HOME=${{ASCEND_TOOLKIT_HOME}}/toolkit
export ASCEND_HOME_PATH=${{ASCEND_TOOLKIT_HOME}}
"""

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


def install(home: Path, tools: Path | None) -> None:
    """Put CANN below `home`: the contents of `tools`, or for the light runtime (None) what it looks for."""
    base = home / "Ascend" / "ascend-toolkit"
    toolkit = base / VERSION
    arch = platform.machine()
    if tools is None:
        profiler = toolkit / "tools" / "profiler"
        write(profiler / "bin" / "msprof", LIGHT_MSPROF, mode=0o755)
        write(profiler / "profiler_tool" / "analysis" / "msprof" / "msprof.py", "")
        for folder in ("lib64", "opp", "compiler", "python/site-packages"):
            (toolkit / folder).mkdir(parents=True, exist_ok=True)
    else:
        for entry in tools.iterdir():
            if entry.name not in ("bin", f"{arch}-linux"):
                link(toolkit / entry.name, entry)
    link(base / "latest", Path(VERSION))
    write(toolkit / "version.cfg", f"# version: 1.0\nruntime_running_version=[{VERSION}:{VERSION}]\n")
    write(
        toolkit / f"{arch}-linux" / "ascend_toolkit_install.info",
        INSTALL_INFO.format(version=VERSION, arch=arch, path=toolkit),
    )


def set_presence(home: Path, *, tools: Path | None, msprof: bool, set_env: bool) -> None:
    """Add or take away what sourcing and profiling need."""
    base = home / "Ascend" / "ascend-toolkit"
    toolkit = base / VERSION
    program = toolkit / "bin" / "msprof"
    if msprof:
        link(program, tools / "bin" / "msprof" if tools else Path("../tools/profiler/bin/msprof"))
    else:
        program.unlink(missing_ok=True)
    script = base / "set_env.sh"
    if set_env:
        write(script, SET_ENV.format(latest=base / "latest"), mode=0o755)
    else:
        script.unlink(missing_ok=True)
