"""The program of the simulated container engine, ``docker``: exec, inspect, ps, start and stop.

What it prints and how it ends is docker's (client 28.2 with its daemon).  Under the names ``podman`` and ``nerdctl``
the commands are the same; a container that is not there, or does not run, is said as those engines say it.
"""

from __future__ import annotations

import os
import sys

from . import docker_ask, docker_options, engine, enter
from .docker_options import Refused, Usage

SOCKET = "unix:///var/run/docker.sock"
DOWN = "Cannot connect to the Docker daemon at %s. Is the docker daemon running?" % SOCKET
DENIED = (
    "permission denied while trying to connect to the Docker daemon socket at %s: Get "
    '"http://%%2Fvar%%2Frun%%2Fdocker.sock/v1.50/containers/json": dial unix /var/run/docker.sock: connect: '
    "permission denied" % SOCKET
)
NOT_STARTED = "OCI runtime exec failed: exec failed: unable to start container process: %s: unknown"


def main(directory: str, arguments: list[str]) -> int:
    """Answer a command line; the exit status."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open("/dev/null", os.O_RDWR)
    told = engine.read(directory)
    try:
        command, rest = docker_options.command(told["engine"], arguments)
        options, words = docker_options.parse(told["engine"], command, rest)
        if command == "exec" and "i" in options and "t" in options and not os.isatty(0) and told["engine"] != "podman":
            raise Refused("the input device is not a TTY")
        if told["daemon"] != "works":
            if command == "inspect" and "f" not in options:
                print("[]")
            raise Refused(DOWN if told["daemon"] == "down" else DENIED)
        return {"exec": run, "inspect": docker_ask.inspect, "ps": docker_ask.ps, "start": start, "stop": stop}[command](
            told, options, words
        )
    except (Refused, Usage) as problem:
        sys.stdout.flush()
        sys.stderr.write(str(problem) + "\n")
        return problem.status


def run(told: dict, options: dict, words: list[str]) -> int:
    """``exec``."""
    container = _found(told, words[0])
    if not engine.running(container):
        raise Refused(
            *{
                "podman": ("Error: can only create exec sessions on running containers: container state improper", 255),
                "docker": ("Error response from daemon: container %s is not running" % container["id"], 1),
                "nerdctl": ("FATA[0000] cannot exec in a stopped state", 1),
            }[told["engine"]]
        )
    user, _, group = options.get("u", container["user"] or "0").partition(":")
    account = _account(container, user)
    if account is None:
        sys.stdout.write("unable to find user %s: no matching entries in passwd file\r\n" % user)
        return 126
    uid, gid, home = account
    env = dict(setting.split("=", 1) for setting in container["env"])
    env = {"HOSTNAME": container["id"][:12], "HOME": home, **({"TERM": "xterm"} if "t" in options else {}), **env}
    for setting in options.get("e", ()):
        name, given, value = setting.partition("=")
        if given or name in os.environ:
            env[name] = value if given else os.environ[name]
    place = {
        "pid": engine.running(container),
        "argv": words[1:],
        "env": env,
        "cwd": options.get("w", container["workdir"]),
        "uid": uid,
        "gid": int(group) if group.isdigit() else gid,
    }
    status, why = enter.run(place, interactive="i" in options, tty="t" in options, detach="d" in options)
    if why and told["engine"] == "podman":
        sys.stderr.write("Error: crun: %s: OCI runtime error\n" % why)
    elif why:
        sys.stdout.write(NOT_STARTED % why + "\r\n")
    return status


def start(told: dict, options: dict, words: list[str]) -> int:
    """``start``."""
    failed = []
    for name in words:
        try:
            container = _found(told, name)
            if not engine.running(container):
                engine.start(container)
            print(name)
        except (Refused, RuntimeError) as problem:
            sys.stderr.write(
                "%s\n" % (problem if isinstance(problem, Refused) else "Error response from daemon: %s" % problem)
            )
            failed.append(name)
    if failed and told["engine"] == "docker":
        sys.stderr.write("Error: failed to start containers: %s\n" % ", ".join(failed))
    return 1 if failed else 0


def stop(told: dict, options: dict, words: list[str]) -> int:
    """``stop``: the first process of a container heeds no SIGTERM and is killed, here without the ten seconds."""
    failed = False
    for name in words:
        try:
            engine.stop(_found(told, name))
            print(name)
        except Refused as problem:
            sys.stderr.write("%s\n" % problem)
            failed = True
    return 1 if failed else 0


def _found(told: dict, name: str) -> dict:
    container = engine.find(told["containers"], name)
    if container is None:
        raise Refused(
            *{
                "podman": ('Error: no container with name or ID "%s" found: no such container' % name, 125),
                "docker": ("Error response from daemon: No such container: %s" % name, 1),
                "nerdctl": ("FATA[0000] no such container %s" % name, 1),
            }[told["engine"]]
        )
    return container


def _account(container: dict, user: str) -> tuple[int, int, str] | None:
    """(uid, gid, home) of a user of the container, by name or number; None for a name that it does not know."""
    with open(os.path.join(container["folder"], "passwd"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split(":") for line in file]
    for row in rows:
        if user in (row[0], row[2]):
            return int(row[2]), int(row[3]), row[5]
    return (int(user), 0, "/") if user.isdigit() else None
