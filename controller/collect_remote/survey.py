"""One round trip: everything about the host that the rest of the pipeline decides on, as plain data."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collect_agent.events import MARK

from .errors import CollectError, EnvironmentUnfit, StorageError, noise_error, one_line
from .inventory import Host
from .probe import SOURCE
from .remote import Remote

OLDEST_PYTHON = (3, 8)
LEAST_FREE_BYTES = 256 * 1024 * 1024
# Of each kind the first that is readable is sourced. A user's own installation lies below the home directory.
USUAL_SETUP = (
    (
        "/usr/local/Ascend/ascend-toolkit/set_env.sh",
        "/usr/local/Ascend/cann/set_env.sh",
        "$HOME/Ascend/ascend-toolkit/set_env.sh",
        "$HOME/Ascend/cann/set_env.sh",
        "/opt/Ascend/ascend-toolkit/set_env.sh",
        "/home/HwHiAiUser/Ascend/ascend-toolkit/set_env.sh",
    ),
    ("/usr/local/Ascend/nnal/atb/set_env.sh", "$HOME/Ascend/nnal/atb/set_env.sh"),
)
DEFAULT_WORKDIR = "~/collect_remote"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the host is like. Sizes in bytes; versions as the host gives them, None for what is not there.

    `python`: what starts it, as the inventory names it, or its own path. `setup`: the scripts that were sourced.
    `npu` is what `collect_agent.npu.look` saw.
    """

    python: str
    python_version: tuple[int, ...]
    setup: tuple[str, ...]
    workdir: str
    workdir_writable: bool
    free_bytes: int
    agent_present: bool
    msprof: str | None
    path: str
    visible_devices: str | None
    cann: str | None
    cann_version: str | None
    versions: Mapping[str, str | None]
    npu: Mapping[str, Any]


_COPIED = (
    "workdir",
    "workdir_writable",
    "free_bytes",
    "agent_present",
    "msprof",
    "path",
    "visible_devices",
    "cann",
    "versions",
    "npu",
)


def survey(remote: Remote, host: Host, agent: str) -> Facts:
    """Ask the host. `agent` is the file name of the agent that may be there already.

    EnvironmentUnfit when there is no bash, no Python that answers, or a script of `setup` is missing or ends the shell;
    StorageError when the host has no space for as much as that.
    """
    begun: list[str] = []
    sourced: list[str] = []
    noise = ["nothing was printed"]
    with remote.stream(_script(host, agent)) as stream:
        for raw in stream.lines(timeout=90):
            # A login script may have printed something without an end of line in front of the mark.
            before, _, answer = raw.decode("utf-8", "replace").partition(MARK)
            word, _, detail = answer.partition(" ")
            if word == "use":
                begun.append(detail)
            elif word == "used":
                sourced.append(detail)
            elif word == "facts" and (found := _document(detail)) is not None:
                return _facts(found, tuple(sourced))
            elif word in _COMPLAINTS:
                raise noise_error(noise) or _COMPLAINTS[word](detail, noise[-1])
            else:  # a marked line that is none of ours comes from a login script that prints our output
                noise += filter(None, [one_line(before)])
    if len(begun) > len(sourced):
        raise EnvironmentUnfit(
            f"{begun[-1]} ended the shell that sourced it",
            "it must not call exit: mend it, or name another under `setup` in the inventory",
        )
    raise noise_error(noise) or EnvironmentUnfit(
        f"the host did not answer the survey: {noise[-1]}",
        "log in with ssh and see that bash and python3 run there without asking anything",
    )


def _document(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "python" in found else None


def check(facts: Facts) -> None:
    """Refuse a host on which the template cannot run, before anything is uploaded. EnvironmentUnfit or StorageError."""
    if facts.versions["torch"] is None or facts.versions["torch_npu"] is None:
        missing = " and ".join(name for name in ("torch", "torch_npu") if facts.versions[name] is None)
        raise EnvironmentUnfit(
            f"{facts.python} has no {missing}",
            "name the Python that has it: `python: /path/to/venv/bin/python` in the inventory",
        )
    if facts.msprof is None:
        sourced = ", ".join(facts.setup) or "no set_env.sh was found"
        raise EnvironmentUnfit(
            f"msprof is not on PATH after sourcing CANN's environment ({sourced}); PATH is {facts.path}",
            "torch_npu parses with msprof: name the toolkit's set_env.sh under `setup` in the inventory",
        )
    if not re.fullmatch(r"[A-Za-z0-9_./-]+", facts.workdir):
        raise EnvironmentUnfit(
            f"the Ascend profiler rejects paths like {facts.workdir!r}",
            "give a `workdir` of letters, digits, '_', '-', '.' and '/' in the inventory",
        )
    if not facts.workdir_writable:
        raise EnvironmentUnfit(
            f"cannot write to {facts.workdir} on the host",
            "name another directory with `workdir` in the inventory",
        )
    if facts.free_bytes < LEAST_FREE_BYTES:
        raise StorageError(
            f"not enough space on the host in {facts.workdir}: need at least {LEAST_FREE_BYTES >> 20} MiB, "
            f"have {facts.free_bytes >> 20} MiB",
            "free some, or name another directory with `workdir` in the inventory",
        )


def environment(setup: tuple[str, ...]) -> str:
    """Shell lines that source exactly these scripts, quietly, whatever they return."""
    return "\n".join(f". {shlex.quote(path)} >/dev/null 2>&1" for path in setup)


def exports(host: Host) -> str:
    """Shell lines that set the host's `env` of the inventory, for the survey and for the run."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in host.env.items())


def home_quoted(path: str) -> str:
    """A path of the inventory as a shell word; a leading ~/ is the home directory on the host."""
    return '"$HOME"/' + shlex.quote(path[2:]) if path.startswith("~/") else shlex.quote(path)


def _script(host: Host, agent: str) -> str:
    mark = shlex.quote(MARK)
    if host.setup:
        setup = "\n".join(
            f"if [ -r {file} ]; then use {file}; else echo {mark}no-setup {file}; return; fi"
            for file in map(home_quoted, host.setup)
        )
    else:
        setup = "\n".join(
            'for file in "{}"; do [ -r "$file" ] && use "$file" && break; done'.format('" "'.join(kind))
            for kind in USUAL_SETUP
        )
    python = home_quoted(host.python or "python3")
    named = python if host.python else "''"
    return f"""
umask 027
use() {{
    printf '\\n%suse %s\\n' {mark} "$1"
    . "$1" </dev/null >/dev/null 2>&1
    printf '%sused %s\\n' {mark} "$1"
}}
{setup}
{exports(host)}
if ! command -v {python} >/dev/null 2>&1; then echo {mark}no-python {python}; return; fi
{python} - {mark} {shlex.quote(host.workdir or DEFAULT_WORKDIR)} {agent} {named} <<'PROBE' && return
{SOURCE}
PROBE
printf '\\n%s%s\\n' {mark} "no-facts $({python} --version 2>&1 | head -n 1)"
"""


def _no_setup(path: str, _: str) -> CollectError:
    return EnvironmentUnfit(
        f"cannot read {path} on the host, which the inventory names under `setup`",
        "correct the path, or remove it: the usual places of CANN are then tried",
    )


def _no_python(name: str, _: str) -> CollectError:
    return EnvironmentUnfit(
        f"there is no {name} on the host",
        "name the Python to use: `python: /path/to/python3` in the inventory",
    )


def _no_facts(python: str, said: str) -> CollectError:
    """The probe broke off, under a Python that says what it is, or fails at that too."""
    version = tuple(map(int, re.findall(r"[0-9]+", python)))
    if python.startswith("Python ") and version < OLDEST_PYTHON:
        return _old_python(python)
    return EnvironmentUnfit(
        f"the survey failed on the host under {python or 'a Python without a version'}: {said}",
        "see that this Python starts on the host, or name another with `python` in the inventory",
    )


def _old_python(version: str) -> CollectError:
    return EnvironmentUnfit(
        f"the host's Python does not run the survey: it says {version!r}",
        f"the agent needs Python {'.'.join(map(str, OLDEST_PYTHON))} or newer: name one with `python` in the inventory",
    )


_COMPLAINTS = {"no-setup": _no_setup, "no-python": _no_python, "no-facts": _no_facts}


def _facts(answer: dict[str, Any], setup: tuple[str, ...]) -> Facts:
    version = tuple(answer["python"]["version"])
    if version < OLDEST_PYTHON:
        raise _old_python(".".join(map(str, version)))
    cann = re.search(r"[Vv]ersion.*?(\d+\.\d+[\w.]*)", answer["cann_version"] or "")
    return Facts(
        python=answer["python"]["path"],
        python_version=version,
        setup=setup,
        cann_version=cann.group(1) if cann else None,
        **{name: answer[name] for name in _COPIED},
    )
