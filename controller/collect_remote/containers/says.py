"""What container engines say when they do not do what they are told, as errors with a remedy. Pure.

Docker's words are those of client and daemon 20 to 28; podman's those of 3 to 5, nerdctl's those of 1 and 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from collect_agent.events import MARK

from ..errors import CollectError, EnvironmentUnfit, RunFailed, UnreachableError

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


def failed(runtime: str, lines: Iterable[str]) -> CollectError | None:
    """The error of an engine that cannot be asked at all; None when it says nothing of the kind."""
    said = " ".join(lines)
    if _DENIED.search(said):
        return EnvironmentUnfit(
            f"the user may not use {runtime} on the host",
            f"add the user to the {runtime} group on the host (`sudo usermod -aG {runtime} USER`) and log in anew",
        )
    if _DOWN.search(said):
        return EnvironmentUnfit(
            f"{runtime} does not answer on the host: its daemon is not running",
            f"start it: `sudo systemctl start {'containerd' if runtime == 'nerdctl' else runtime}`",
        )
    return None


def no_engine(wanted: Sequence[str]) -> CollectError:
    names = " or ".join(wanted)
    return EnvironmentUnfit(
        f"there is no {names} on the host's PATH, and the inventory names a container",
        "install it, have it on the PATH of a login without a terminal, or name another `container_runtime`",
    )


def no_container(wanted: str, runtime: str, names: Sequence[str]) -> CollectError:
    what = f"with the label {wanted.removeprefix('label:')}" if wanted.startswith("label:") else wanted
    return EnvironmentUnfit(
        f"there is no container {what} on the host",
        f"{runtime} has: {', '.join(names) or 'none'}; correct `container` in the inventory",
    )


def several(wanted: str, names: Sequence[str]) -> CollectError:
    return EnvironmentUnfit(
        f"{len(names)} containers have the label {wanted.removeprefix('label:')}: {', '.join(names)}",
        "name one of them as `container` in the inventory",
    )


def not_running(name: str, runtime: str, state: str) -> CollectError:
    verb = "unpause" if state == "paused" else "start"
    return EnvironmentUnfit(f"the container {name} is not running ({state})", f"start it: `{runtime} {verb} {name}`")


def not_entered(name: str, runtime: str, said: Sequence[str], status: int | None, *, going: bool) -> CollectError:
    """Why no shell of ours began in a container that was there a moment ago.

    said    lines that came in its place
    status  how the engine's program ended; None: it goes on
    going   whether a run was going on inside: a daemon may come back, a container that has ended took the run along
    """
    words = [line for line in said if line and not line.startswith(MARK.strip())]
    text = " ".join(words)
    if status is None:
        return UnreachableError(
            f"{runtime} does not enter the container {name}", f"see where `{runtime} exec {name} true` hangs"
        )
    if known := failed(runtime, words):
        return UnreachableError(known.message, known.remedy) if going and _DOWN.search(text) else known
    if gone := _gone(name, runtime, text):
        if not going:
            return gone
        return RunFailed(f"during the run {gone.message}", f"{gone.remedy}; then collect again")
    if found := _NO_USER.search(text):
        return EnvironmentUnfit(
            f"{runtime} cannot be that user in the container {name}: {found[0]}",
            "correct `container_user` in the inventory",
        )
    if _NO_SHELL.search(text):
        return EnvironmentUnfit(
            f"there is no bash in the container {name}", "install bash in it, or use an image that has one"
        )
    return EnvironmentUnfit(
        f"{runtime} did not enter the container {name} (exit status {status}): {text or 'it printed nothing'}",
        f"see what `{runtime} exec -i {name} bash` says on the host",
    )


def _gone(name: str, runtime: str, text: str) -> CollectError | None:
    if _MISSING.search(text):
        return EnvironmentUnfit(f"the container {name} has gone", f"`{runtime} ps -a` shows those that there are")
    if found := _PAUSED.search(text) or _STOPPED.search(text):
        return not_running(name, runtime, "paused" if found.re is _PAUSED else "stopped")
    return None
