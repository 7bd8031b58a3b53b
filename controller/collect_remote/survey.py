"""One round trip: everything about the host that the rest of the pipeline decides on, as plain data."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collect_agent.events import MARK

from .errors import EnvironmentUnfit, StorageError
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

    EnvironmentUnfit when there is no bash, no Python that answers, or a script of `setup` is missing.
    """
    sourced, noise = [], ["nothing was printed"]
    with remote.stream(_script(host, agent)) as stream:
        for raw in stream.lines(timeout=90):
            # A login script may have printed something without an end of line in front of the mark.
            before, mark, answer = raw.decode("utf-8", "replace").partition(MARK)
            word, _, detail = answer.partition(" ")
            if not mark:
                noise += filter(None, [before.strip()])
            elif word == "used":
                sourced.append(detail)
            elif word == "facts":
                return _facts(json.loads(detail), tuple(sourced))
            else:
                raise _complaint(word, detail, noise[-1])
    raise EnvironmentUnfit(
        f"the host did not answer the survey: {noise[-1]}",
        "log in with ssh and see that bash and python3 run there without asking anything",
    )


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


def _script(host: Host, agent: str) -> str:
    if host.setup:
        setup = "\n".join(
            f"if [ -r {file} ]; then use {file}; else echo {shlex.quote(MARK + 'no-setup')} {file}; return; fi"
            for file in map(shlex.quote, host.setup)
        )
    else:
        setup = "\n".join(
            'for file in "{}"; do [ -r "$file" ] && use "$file" && break; done'.format('" "'.join(kind))
            for kind in USUAL_SETUP
        )
    python = shlex.quote(host.python or "python3")
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in host.env.items())
    return f"""
umask 027
use() {{ . "$1" >/dev/null 2>&1; printf '%s%s\\n' {shlex.quote(MARK)} "used $1"; }}
{setup}
{exports}
if ! command -v {python} >/dev/null 2>&1; then echo {shlex.quote(MARK + "no-python")} {python}; return; fi
{python} - {shlex.quote(MARK)} {shlex.quote(host.workdir or DEFAULT_WORKDIR)} {agent} <<'PROBE' && return
{SOURCE}
PROBE
printf '\\n%s%s\\n' {shlex.quote(MARK)} "old-python $({python} --version 2>&1 | head -n 1)"
"""


def _complaint(word: str, detail: str, noise: str = "") -> EnvironmentUnfit:
    if word == "no-setup":
        return EnvironmentUnfit(
            f"cannot read {detail} on the host, which the inventory names under `setup`",
            "correct the path, or remove it: the usual places of CANN are then tried",
        )
    if word == "no-python":
        return EnvironmentUnfit(
            f"there is no {detail} on the host",
            "name the Python to use: `python: /path/to/python3` in the inventory",
        )
    version = tuple(map(int, re.findall(r"[0-9]+", detail)))
    if version >= OLDEST_PYTHON:
        return EnvironmentUnfit(f"the survey failed on the host: {noise}", "report it with what --debug shows")
    return EnvironmentUnfit(
        f"the host's Python does not run the survey: it says {detail!r}",
        f"the agent needs Python {'.'.join(map(str, OLDEST_PYTHON))} or newer: name one with `python` in the inventory",
    )


def _facts(answer: dict[str, Any], setup: tuple[str, ...]) -> Facts:
    version = tuple(answer["python"]["version"])
    if version < OLDEST_PYTHON:
        raise _complaint("old-python", ".".join(map(str, version)))
    cann = re.search(r"[Vv]ersion.*?(\d+\.\d+[\w.]*)", answer["cann_version"] or "")
    return Facts(
        python=answer["python"]["path"],
        python_version=version,
        setup=setup,
        cann_version=cann.group(1) if cann else None,
        **{name: answer[name] for name in _COPIED},
    )
