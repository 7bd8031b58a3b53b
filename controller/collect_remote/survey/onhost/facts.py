"""The survey's program: one JSON document about everything a run depends on, and no trace left behind.

Arguments: the mark of our lines, the work directory, the agent's file name, the Python as the inventory names it (or
""), why this Python was chosen, which project to look at (`onhost.project`, or ""), and the paths of models. Where the
inventory names no Python and this one lacks torch_npu, a better one's path and the reason go to descriptor 3 instead of
an answer.
"""

import json
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional  # noqa: F401 - used in comments

    from collect_agent.npu.look import _driver

    from .early import looking
    from .looking import Looking
    from .output import file_system, mount, nearest, space, use
    from .project import project
    from .pythons import version, with_torch_npu
    from .reader import SOURCES
    from .uploaded import intact

DISTRIBUTIONS = ("torch", "torch_npu", "transformers", "diffusers")
MOST_FILES = 1000  # of a model, that are looked at
VERSIONS = [
    os.path.join(os.uname()[4] + "-linux", "ascend_toolkit_install.info"),
    "version.cfg",
    "version.info",
    os.path.join("compiler", "version.info"),
]
MSPROF_PY = os.path.join("tools", "profiler", "profiler_tool", "analysis", "msprof", "msprof.py")


def which(name):
    # type: (str) -> Optional[str]
    for folder in os.environ.get("PATH", "").split(":"):
        path = os.path.join(folder, name)
        if folder and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def msprof_py(msprof):
    # type: (Optional[str]) -> Optional[str]
    """msprof's Python part where torch_npu looks for it: from the real place of msprof on (torch_npu 2.13.0)."""
    path = os.path.join(os.path.realpath(msprof).split("tools")[0], MSPROF_PY) if msprof else ""
    return path if os.path.isfile(path) else None


def first_of(folder, names, most=2000):
    # type: (str, List[str], int) -> Optional[str]
    """The beginning of the first of these files that there is."""
    for name in names:
        try:
            with open(os.path.join(folder, name)) as file:
                return file.read(most)
        except (IOError, OSError, ValueError):
            pass
    return None


def unusable(path):
    # type: (str) -> Optional[str]
    """Why a model cannot be read from `path`; None when it can."""
    if not os.path.isabs(path):
        return "is not an absolute path"
    if not os.path.exists(path):
        return "is not there"
    if not os.path.isdir(path):
        return None if os.access(path, os.R_OK) else "cannot be read"
    if not os.access(path, os.R_OK | os.X_OK):
        return "cannot be read"
    names = sorted(os.listdir(path))
    for name in names[:MOST_FILES]:
        file = os.path.join(path, name)
        if not os.path.exists(file):
            return "has a link that leads nowhere: {}".format(name)
        if not os.access(file, os.R_OK):
            return "has a file that cannot be read: {}".format(name)
    return None if names else "is empty"


def environment():
    # type: () -> Dict[str, str]
    """The environment as it was given to this process, whatever the locale makes Python think of it."""
    try:
        with open("/proc/self/environ", "rb") as file:
            pairs = [entry.partition(b"=") for entry in file.read().split(b"\0") if b"=" in entry]
    except (IOError, OSError):
        return dict(os.environ)
    errors = "replace" if sys.version_info < (3,) else "surrogateescape"
    return dict((name.decode("utf-8", errors), value.decode("utf-8", errors)) for name, _, value in pairs)


def nodes():
    # type: () -> List[int]
    """The numbers of the NPUs whose device files are here."""
    found = [re.match(r"davinci(\d+)$", name) for name in os.listdir("/dev")]
    return sorted(int(name.group(1)) for name in found if name)


def python(named, why, others):
    # type: (str, str, List[str]) -> Dict[str, Any]
    return {
        "path": named or sys.executable,
        "version": list(sys.version_info[:3]),
        "why": why or ("named in the inventory" if named else "python3 on PATH"),
        "others": others[:5],
    }


def output(workdir):
    # type: (str) -> Dict[str, Any]
    """The work directory, or what will hold it."""
    base = nearest(workdir)
    may = os.path.isdir(base) and os.access(base, os.W_OK | os.X_OK)
    free = space(base)
    return {
        "workdir": workdir,
        "workdir_writable": may,
        "free_bytes": free["bytes"],
        "free_inodes": free["inodes"],
        "file_system": file_system(base),
        "mount": mount(base),
        "output": use(workdir) if may else None,
    }


def software():
    # type: () -> Dict[str, Any]
    cann = os.environ.get("ASCEND_TOOLKIT_HOME") or os.environ.get("ASCEND_HOME_PATH") or None
    msprof = which("msprof")
    return {
        "msprof": msprof,
        "msprof_py": msprof_py(msprof),
        "path": os.environ.get("PATH", ""),
        "visible_devices": os.environ.get("ASCEND_RT_VISIBLE_DEVICES"),
        "cann": cann,
        "cann_place": os.path.realpath(cann) if cann else None,
        "cann_version": first_of(cann, VERSIONS) if cann else None,
        "driver_version": first_of(_driver(), ["version.info"]),
    }


def main(looking, mark, workdir, agent, named="", why="", asked="", *models):
    # type: (Optional[Looking], str, str, str, str, str, str, *str) -> None
    others = [] if looking else list(with_torch_npu(os.path.expanduser("~"), dict(os.environ)))
    if others and not named and not why:
        kind, program = others[0]
        problem = "has no torch_npu" if sys.version_info >= (3, 8) else "is too old"
        os.write(3, "{}\t{}: {} {}".format(program, kind, sys.executable, problem).encode("utf-8"))
        return
    looking = looking or Looking(SOURCES)
    workdir = os.path.realpath(os.path.expanduser(workdir))
    found = {
        "python": python(named, why, [program for _, program in others]),
        "versions": dict((name, version(name)) for name in DISTRIBUTIONS),
        "agent_present": intact(os.path.join(workdir, "agent", agent)),
        "nodes": nodes(),
        "models": dict((path, unusable(path)) for path in models),
        "environment": environment(),
        "project": project(json.loads(asked)) if asked else None,
    }  # type: Dict[str, Any]
    found.update(output(workdir))
    found.update(software())
    found["npu"] = looking.found()
    sys.stdout.write("\n" + mark + "facts " + json.dumps(found) + "\n")


if __name__ == "__main__":
    main(looking, *sys.argv[1:])
