"""What the processes of a simulated container see: a file system of their own, made by the script that starts it.

Of the machine there are its /usr, its /etc, and the directories without which nothing would run: Pythons, this
repository and its environments, all of them read-only and where they are on the machine.  Of the host there is what is
mounted, and what the simulated driver counts with.  The rest is the container's own.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import python
from .files import write

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON = "/opt/python"
WORKDIR = "/workspace"
LOADER = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")

SCRIPT = """\
set -e
read -r pid rest < /proc/self/stat
exec 3> {folder}/pid
trap 'echo failed >&3' EXIT
printf %s {hostname} > /proc/sys/kernel/hostname
root={folder}/rootfs
at() {{ mkdir -p "$root$2"; mount --bind "$1" "$root$2"; }}
fixed() {{ at "$1" "$2"; mount -o remount,bind,ro "$root$2"; }}
file() {{ mkdir -p "$(dirname "$root$2")"; [ -e "$root$2" ] || : > "$root$2"; mount --bind "$1" "$root$2"; }}
mount -t tmpfs -o mode=755 tmpfs "$root"
{top}
{fixed}
mount -t overlay -o "lowerdir={folder}/usr-local:/usr/local" overlay "$root/usr/local"
file {folder}/passwd /etc/passwd
{own}
{fixed_later}
{driver}
{mounts}
mkdir -p "$root/proc" "$root/sys" "$root/run" "$root/var/tmp" "$root/dev"
chmod 1777 "$root/var/tmp"
: > "$root/.dockerenv"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
{devices}
ln -s /proc/self/fd "$root/dev/fd"
for name in stdin:0 stdout:1 stderr:2; do ln -s "/proc/self/fd/${{name#*:}}" "$root/dev/${{name%:*}}"; done
mkdir -m 1777 "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mkdir "$root/.machine"
cd "$root"
pivot_root . .machine
cd /
umount -l /.machine
rmdir /.machine
exec < /dev/null > /dev/null 2>&1
echo "$pid" >&3
exec 3>&-
trap - EXIT
exec sleep infinity
"""
NODES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
DAVINCI_MAJOR = 236


class Mount(NamedTuple):
    """A directory or file of the host, and where the container has it."""

    source: Path
    target: str
    writable: bool
    named: str  # what the host calls the source

    def shown(self) -> dict[str, Any]:
        """As ``inspect`` tells of it."""
        return {
            "Type": "bind",
            "Source": self.named,
            "Destination": self.target,
            "Mode": "" if self.writable else "ro",
            "RW": self.writable,
            "Propagation": "rprivate",
        }


def write_script(
    folder: Path,
    hostname: str,
    own: Mapping[Path, str],
    driver: Sequence[Path],
    mounts: Sequence[Mount],
    needed: Sequence[Path],
    devices: Sequence[str],
) -> None:
    """Write ``start`` in `folder`, for a shell in new namespaces of mounts, pids and host names.

    own      the container's own directories, and where it has them
    driver   the directory of the simulated driver, with those of the host that it shares; where they are, they stay
    needed   what must be there, read-only, beside the machine's /usr and /etc
    devices  names of /dev/davinci nodes and their like
    """
    wanted = [path for path in _roots([*needed, *_machine()]) if not path.is_relative_to("/usr")]
    write(
        folder / "start",
        SCRIPT.format(
            folder=shlex.quote(str(folder)),
            hostname=shlex.quote(hostname),
            top="\n".join(_top(Path("/") / name) for name in LOADER),
            fixed="fixed /usr /usr\nfixed /etc /etc",
            own="\n".join(f"at {shlex.quote(str(path))} {shlex.quote(target)}" for path, target in own.items()),
            fixed_later="\n".join(f"fixed {shlex.quote(str(path))} {shlex.quote(str(path))}" for path in wanted),
            driver=_driver(driver),
            mounts="\n".join(map(_mount, mounts)),
            devices="\n".join(_nodes(devices)),
        ),
    )


def _machine() -> list[Path]:
    """The directories with the programs that the simulated host itself consists of."""
    bare = python.interpreter(sys.executable).path
    venv = REPOSITORY / ".venv"
    return [REPOSITORY, bare.parents[1], *([venv.resolve()] if venv.exists() else [])]


def _roots(paths: Sequence[Path]) -> list[Path]:
    """`paths` without those that lie in another."""
    return [
        path for path in sorted(set(paths)) if not any(path != other and path.is_relative_to(other) for other in paths)
    ]


def _top(path: Path) -> str:
    """/bin and the like: links into /usr, or directories."""
    if path.is_symlink():
        return f'ln -s {path.readlink()} "$root{path}"'
    return f"fixed {path} {path}" if path.is_dir() else ""


def _driver(paths: Sequence[Path]) -> str:
    own, *shared = paths
    lines = [f"at {shlex.quote(str(own))} {shlex.quote(str(own))}"]
    for path in shared:
        lines.append(f"{'at' if path.is_dir() else 'file'} {shlex.quote(str(path))} {shlex.quote(str(path))}")
    proc = shlex.quote(str(own / "proc"))
    return "\n".join([*lines, f'mkdir -p "$root"{proc}', f'mount --rbind /proc "$root"{proc}'])


def _mount(mount: Mount) -> str:
    source, target = shlex.quote(str(mount.source)), shlex.quote(mount.target)
    line = f"{'file' if mount.source.is_file() else 'at'} {source} {target}"
    return line if mount.writable else f'{line}\nmount -o remount,bind,ro "$root"{target}'


def _nodes(devices: Sequence[str]) -> list[str]:
    lines = [f'mknod -m 666 "$root/dev/{name}" c {major} {minor}' for name, (major, minor) in NODES.items()]
    return lines + [f'mknod -m 660 "$root{path}" c {DAVINCI_MAJOR} {at}' for at, path in enumerate(devices)]
