"""The container engine of the simulated host: which containers there are, and what starts and ends them.

The file ``containers`` in the driver directory is a Python literal: ``engine`` (the name of the program, or None),
``daemon`` (how it answers: "works", "denied", "down") and ``containers``, a list of dicts with what ``inspect`` says of
each.  A container has a directory, its ``folder``, with

``start``    the shell script that becomes its first process in namespaces of its own (see ``container_root``)
``pid``      that process, by the host's number, and when it was started; empty while it starts
``ended``    how the last one ended: exit status and seconds since the epoch
``passwd``   its /etc/passwd
"""

from __future__ import annotations

import os
import signal
import subprocess
import time

START_SECONDS = 20.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def read(directory: str) -> dict:
    """The file ``containers`` of a driver directory."""
    with open(os.path.join(directory, "containers"), encoding="utf-8") as file:
        return eval(file.read(), {"__builtins__": {}})


def find(containers: list[dict], wanted: str) -> dict | None:
    """The container with this name, id, or beginning of an id that only one has."""
    for container in containers:
        if wanted in (container["name"], container["id"]):
            return container
    begun = [container for container in containers if wanted and container["id"].startswith(wanted)]
    return begun[0] if len(begun) == 1 else None


def running(container: dict) -> int:
    """The host's pid of a container's first process; 0 when it does not run."""
    try:
        with open(os.path.join(container["folder"], "pid"), encoding="ascii") as file:
            pid, started = file.read().split()
        return int(pid) if _started(int(pid)) == started else 0
    except (OSError, ValueError):
        return 0


def start(container: dict) -> None:
    """Start a container that does not run.  Raises RuntimeError with what its first process says when it cannot."""
    folder = container["folder"]
    note, said_wrong = os.path.join(folder, "pid"), os.path.join(folder, "log")
    if os.path.exists(note):
        os.unlink(note)
    command = ["setsid", "--fork", "unshare", "--mount", "--uts", "--pid", "--fork", "/bin/sh", folder + "/start"]
    with open(said_wrong, "wb") as log:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": PATH}, check=True)
    deadline, said = time.monotonic() + START_SECONDS, ""
    while not said.endswith("\n") and time.monotonic() < deadline:
        time.sleep(0.002)
        if not os.path.exists(note) and _text(said_wrong):
            break  # there are no namespaces to start it in
        said = _text(note)
    if not said.strip().isdigit():
        raise RuntimeError(_text(said_wrong) or "the container did not start")
    with open(note, "w", encoding="ascii") as file:
        file.write("%s %s" % (said.strip(), _started(int(said))))


def stop(container: dict, status: int = 137) -> None:
    """Kill the first process, and with it the kernel ends all others of the container; wait until it is gone."""
    pid = running(container)
    if not pid:
        return
    with open(os.path.join(container["folder"], "ended"), "w", encoding="ascii") as file:
        file.write("%d %d" % (status, time.time()))
    os.kill(pid, signal.SIGKILL)
    while running(container):
        time.sleep(0.002)


def state(container: dict) -> dict:
    """``State`` of ``inspect``."""
    pid = running(container)
    ended = _text(os.path.join(container["folder"], "ended")).split()
    return {
        "Status": "running" if pid else "exited" if ended else "created",
        "Running": bool(pid),
        "Paused": False,
        "Restarting": False,
        "OOMKilled": False,
        "Dead": False,
        "Pid": pid,
        "ExitCode": int(ended[0]) if ended and not pid else 0,
        "Error": "",
    }


def _started(pid: int) -> str:
    """When a process was started, in ticks since boot; "" for one that has ended, a zombie included."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
