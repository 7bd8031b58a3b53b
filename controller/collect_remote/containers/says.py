"""What container engines say when they do not do what they are told, as errors with a remedy. Pure.

Docker's words are those of client and daemon 20 to 28; podman's those of 3 to 5, nerdctl's those of 1 and 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from collect_agent.ending import ending
from collect_agent.events import MARK

from ..errors import CollectError, EnvironmentUnfit, RunFailed, Trouble, UnreachableError

_DENIED = re.compile(r"permission denied.*\.sock|\.sock.*permission denied", re.IGNORECASE)
_DOWN = re.compile(
    r"cannot connect to the docker daemon|cannot connect to podman|cannot access containerd socket"
    r"|rootless containerd not running|is the docker daemon running|containerd\.sock.*(no such file|refused)",
    re.IGNORECASE,
)
_MISSING = re.compile(r"no such (object|container)|no container with name", re.IGNORECASE)
_STOPPED = re.compile(
    r"container \S+ is not running|can only create exec sessions on running|cannot exec in a stopped|is not running",
    re.IGNORECASE,
)
_PAUSED = re.compile(r"is paused", re.IGNORECASE)
_NO_USER = re.compile(r"unable to find (user|group) \S+.*|no matching entries in passwd.*", re.IGNORECASE)
_NO_SHELL = re.compile(
    r'exec: "sh"|executable file .?sh.? not found|bash: (command )?not found|not found: bash', re.IGNORECASE
)


DENIED = Trouble(
    "engine-denied",
    EnvironmentUnfit,
    "the user may not use {runtime} on the host",
    "the engine's socket is not for this account; whoever was let into its group has to log in anew",
    "add the user to the {runtime} group on the host (`sudo usermod -aG {runtime} USER`) and log in anew",
)
DOWN = Trouble(
    "engine-down",
    EnvironmentUnfit,
    "{runtime} does not answer on the host: its daemon is not running",
    "it was stopped, or was not started after a boot",
    "start it: `sudo systemctl start {service}`",
)
NO_ENGINE = Trouble(
    "no-engine",
    EnvironmentUnfit,
    "there is no {names} on the host's PATH, and the inventory names a container",
    "a session without a terminal may have a shorter PATH than a terminal",
    "install it, have it on the PATH of a login without a terminal, or name another `container_runtime`",
)
NO_CONTAINER = Trouble(
    "no-container",
    EnvironmentUnfit,
    "there is no container {what} on the host",
    "`container` is a name, an id or a label as the engine on the host sees it, and as this account sees it",
    "{runtime} has: {names}; correct `container` in the inventory",
)
SEVERAL = Trouble(
    "several-containers",
    EnvironmentUnfit,
    "{count} containers have the label {label}: {names}",
    "nobody but you can say which is meant",
    "name one of them as `container` in the inventory",
)
STOPPED = Trouble(
    "container-stopped",
    EnvironmentUnfit,
    "the container {name} is not running ({state})",
    "it has ended, was stopped or paused; during a run that has ended the run too, and its device is free",
    "start it: `{runtime} {verb} {name}`",
)
GONE = Trouble(
    "container-gone",
    EnvironmentUnfit,
    "the container {name} has gone",
    "somebody removed it, or it was started with --rm and has ended",
    "`{runtime} ps -a` shows those that there are",
)
HANGS = Trouble(
    "container-hangs",
    UnreachableError,
    "{runtime} does not enter the container {name}",
    "the engine hangs, or the container's file system does",
    "see where `{runtime} exec {name} true` hangs",
)
NO_USER = Trouble(
    "container-user",
    EnvironmentUnfit,
    "{runtime} cannot be that user in the container {name}: {said}",
    "the users of an image are its own, not the host's",
    "correct `container_user` in the inventory",
)
NO_BASH = Trouble(
    "no-bash-in-container",
    EnvironmentUnfit,
    "there is no bash in the container {name}",
    "a small image may have sh alone, or not even that",
    "install bash in it, or use an image that has one",
)
CLOSED = Trouble(
    "container-not-entered",
    EnvironmentUnfit,
    "{runtime} did not enter the container {name} ({ending}): {said}",
    "the engine says why, in its own words",
    "see what `{runtime} exec -i {name} bash` says on the host",
)


def failed(runtime: str, lines: Iterable[str]) -> CollectError | None:
    """The error of an engine that cannot be asked at all; None when it says nothing of the kind."""
    said = " ".join(lines)
    if _DENIED.search(said):
        return DENIED(runtime=runtime)
    if _DOWN.search(said):
        return DOWN(runtime=runtime, service="containerd" if runtime == "nerdctl" else runtime)
    return None


def no_engine(wanted: Sequence[str]) -> CollectError:
    return NO_ENGINE(names=" or ".join(wanted))


def no_container(wanted: str, runtime: str, names: Sequence[str]) -> CollectError:
    what = f"with the label {wanted.removeprefix('label:')}" if wanted.startswith("label:") else wanted
    return NO_CONTAINER(what=what, runtime=runtime, names=", ".join(names) or "none")


def several(wanted: str, names: Sequence[str]) -> CollectError:
    return SEVERAL(count=len(names), label=wanted.removeprefix("label:"), names=", ".join(names))


def not_running(name: str, runtime: str, state: str) -> CollectError:
    verb = "unpause" if state == "paused" else "start"
    return STOPPED(name=name, state=state, runtime=runtime, verb=verb)


def not_entered(name: str, runtime: str, said: Sequence[str], status: int | None, *, going: bool) -> CollectError:
    """Why no shell of ours began in a container that was there a moment ago.

    said    lines that came in its place
    status  how the engine's program ended; None: it goes on; -1: by a signal
    going   whether a run was going on inside: a daemon may come back, a container that has ended took the run along
    """
    words = [line for line in said if line and not line.startswith(MARK.strip())]
    text = " ".join(words)
    if status is None:
        return HANGS(runtime=runtime, name=name)
    if known := failed(runtime, words):
        lost = going and _DOWN.search(text)
        return UnreachableError(known.message, known.remedy, entry=known.entry) if lost else known
    if gone := _gone(name, runtime, text):
        if not going:
            return gone
        return RunFailed(f"during the run {gone.message}", f"{gone.remedy}; then collect again", entry=gone.entry)
    if found := _NO_USER.search(text):
        return NO_USER(runtime=runtime, name=name, said=found[0])
    if _NO_SHELL.search(text):
        return NO_BASH(name=name)
    how = "killed by a signal" if status == -1 else ending(status)
    return CLOSED(runtime=runtime, name=name, ending=how, said=text or "it printed nothing")


def _gone(name: str, runtime: str, text: str) -> CollectError | None:
    if _MISSING.search(text):
        return GONE(name=name, runtime=runtime)
    if found := _PAUSED.search(text) or _STOPPED.search(text):
        return not_running(name, runtime, "paused" if found.re is _PAUSED else "stopped")
    return None
