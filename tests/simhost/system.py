"""What an administrator installs: npu-smi and the driver below /usr/local, sudo, pgrep, a container engine."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from . import set_env
from .files import write

ENGINES = ("docker", "podman", "nerdctl")
DRIVER = "/usr/local/Ascend/driver"

# A password is asked for on the terminal; without one, sudo says so unless it was told to read stdin.
SUDO = {
    "waits": """\
[ "$1" = -n ] && echo "sudo: a password is required" >&2 && exit 1
printf '[sudo] password for %s: ' "$USER" >&2
head -c 1 >/dev/null
exit 1
""",
    "no-terminal": """\
case "$1" in
-n) echo "sudo: a password is required" >&2 ;;
*)
    echo "sudo: a terminal is required to read the password; either use the -S option to read from standard input or \
configure an askpass helper" >&2
    echo "sudo: a password is required" >&2 ;;
esac
exit 1
""",
}


def npu_smi(programs: Path, usr_local: Path, text: str, place: str) -> None:
    """The program `text` where it should be (``Knobs.npu_smi``), and nowhere else."""
    for where, folder in {"path": programs, "outside": usr_local / "sbin"}.items():
        if where == place:
            write(folder / "npu-smi", text, mode=0o755)
        else:
            (folder / "npu-smi").unlink(missing_ok=True)


def driver(usr_local: Path, wanted: bool, version: str) -> None:
    """The files of the driver that a runtime and people look at, for a session that has `usr_local` as /usr/local."""
    there = usr_local / "Ascend" / "driver"
    if not wanted:
        shutil.rmtree(usr_local / "Ascend", ignore_errors=True)
        return
    lib64 = there / "lib64"
    write(lib64 / "driver" / "libascend_hal.so", "")
    write(lib64 / "driver" / "libdrvdsmi_host.so", "")
    write(lib64 / "common" / "libc_sec.so", "")
    write(there / "version.info", f"Version={version}\nascendhal_version=7.35.19\npackage_version={version}\n")
    write(there / "bin" / "setenv.bash", set_env.DRIVER.format(lib64=f"{DRIVER}/lib64"))


def sudo(programs: Path, kind: str) -> None:
    """A ``sudo`` that behaves so (``Knobs.sudo``), or that of the machine."""
    if kind in SUDO:
        write(programs / "sudo", "#!/bin/sh\n" + SUDO[kind], mode=0o755)
    else:
        (programs / "sudo").unlink(missing_ok=True)


def hostname(programs: Path, addresses: Sequence[str]) -> None:
    """A ``hostname`` whose -I prints the host's addresses, or that of the machine."""
    if addresses:
        text = f'#!/bin/sh\n[ "$1" = -I ] && echo "{" ".join(addresses)} " && exit 0\nexec uname -n\n'
        write(programs / "hostname", text, mode=0o755)
    else:
        (programs / "hostname").unlink(missing_ok=True)


def pgrep(programs: Path, text: str) -> None:
    """A ``pgrep`` that sees this host's processes, not all of the machine."""
    write(programs / "pgrep", text, mode=0o755)


def container_engine(programs: Path, text: str, name: str | None) -> None:
    """The program `text` of the container engine, under that name alone."""
    for known in ENGINES:
        if known == name:
            write(programs / known, text, mode=0o755)
        else:
            (programs / known).unlink(missing_ok=True)
