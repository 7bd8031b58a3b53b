"""The probe that the survey runs on the host: one JSON document about everything a run depends on.

The text below is data here and a program there. It runs under whatever `python3` the host has, so it keeps to what
Python 2.7 and every 3.x understand; versions that are too old are told apart by what it prints, not by a syntax error.
"""

from __future__ import annotations

from importlib import resources

_FACTS = r'''
import hashlib, json, signal, threading

def which(name):
    for folder in os.environ.get("PATH", "").split(":"):
        path = os.path.join(folder, name)
        if folder and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None

def leave_with_reader():
    """Whoever asked has gone: a hanging npu-smi is not left behind, nor one that is just being started."""
    poller = select.poll()
    poller.register(1, 0)
    poller.poll()
    os.killpg(0, signal.SIGKILL)

def version(name):
    """Version of an installed distribution, "unknown" for a package without one, None when there is none.

    The names of the metadata directories tell it: importlib.metadata would take longer than the rest of the probe.
    """
    for folder in sys.path:
        for entry in listed.setdefault(folder, os.listdir(folder) if os.path.isdir(folder) else []):
            found = re.match(r"(.+?)(?:-(\d[^-]*)(?:-.*)?)?\.(?:dist|egg)-info$", entry)
            if found and re.sub("[-_.]+", "_", found.group(1)).lower() == name:
                return found.group(2) or "unknown"
    try:
        from importlib import util
        return "unknown" if util.find_spec(name) else None
    except Exception:
        return None

def space(path):
    """Bytes free for us on the file system that will hold `path`."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    info = os.statvfs(path)
    return info.f_bavail * info.f_frsize

def writable(path):
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)

def intact(path):
    """Whether the agent is there and has the digest that its name begins."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()[:16] in os.path.basename(path)
    except (IOError, OSError):
        return False

mark, workdir, agent, command = sys.argv[1:5]
listed = {}
npus = []
if os.getpgrp() != os.getpid():
    os.setpgid(0, 0)
looking = threading.Thread(target=lambda: npus.append(look(45.0)))
looking.start()
watch = threading.Thread(target=leave_with_reader)
watch.daemon = True
watch.start()
workdir = os.path.realpath(os.path.expanduser(workdir))
cann = os.environ.get("ASCEND_TOOLKIT_HOME") or os.environ.get("ASCEND_HOME_PATH") or ""
cann_version = None
for name in ("version.cfg", "version.info", os.path.join("compiler", "version.info")):
    if cann and os.path.isfile(os.path.join(cann, name)):
        with open(os.path.join(cann, name)) as file:
            cann_version = file.read(2000)
        break
facts = {
    "python": {"path": command or sys.executable, "version": list(sys.version_info[:3])},
    "workdir": workdir,
    "workdir_writable": writable(workdir),
    "free_bytes": space(workdir),
    "agent_present": intact(os.path.join(workdir, "agent", agent)),
    "msprof": which("msprof"),
    "path": os.environ.get("PATH", ""),
    "visible_devices": os.environ.get("ASCEND_RT_VISIBLE_DEVICES"),
    "cann": cann or None,
    "cann_version": cann_version,
    "versions": dict((name, version(name)) for name in ("torch", "torch_npu", "transformers", "diffusers")),
}
looking.join()
facts["npu"] = npus[0]
sys.stdout.write("\n" + mark + "facts " + json.dumps(facts) + "\n")
'''

# How the host is asked about its NPUs is the agent's own code.
SOURCE = resources.files("collect_agent.npu").joinpath("look.py").read_text(encoding="utf-8") + _FACTS
